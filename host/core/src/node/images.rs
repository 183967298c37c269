//! The image lane of each container: look, pull, or wait out the backoff. Pulls go through the node's queue, beside everything else.

use std::time::Duration;

use crate::effect::{Act, Count, Effect};
use crate::event::{CallError, CallErrorKind, Outcome};
use crate::id::{ContainerName, EffectId};
use crate::observed::Image;
use crate::pod::{Container, Pod, PullPolicy, is_reference};
use crate::question::restart::Cause;
use crate::restart::go_duration;
use crate::status::Waiting;

use super::cx::{Cx, What};
use super::worker::{Pull, Worker};

/// After a failure that nothing but a change of the spec can mend.
const MUCH_LATER: Duration = Duration::from_secs(300);
/// After a failure that only a change on the node can mend.
const LATER: Duration = Duration::from_secs(10);

impl Worker {
    /// The image of a container, once it is there. Begins what is needed to get it.
    pub(super) fn image(&mut self, cx: &mut Cx<'_>, container: &Container) -> Option<Image> {
        match self.pulls.get(&container.name) {
            Some(Pull::Ready(image)) => return Some(image.clone()),
            Some(Pull::Inspecting(_) | Pull::Pulling { .. } | Pull::Asking { .. }) => return None,
            Some(Pull::Queued { .. }) => {
                self.pull_if_its_turn(cx, container);
                return None;
            }
            Some(Pull::Backoff { until }) => {
                let until = *until;
                if !cx.reached(until) {
                    return None;
                }
            }
            None => {}
        }
        if !is_reference(&container.image) {
            self.image_has_no_name(cx, container);
            return None;
        }
        if container.pull_policy == PullPolicy::Always {
            self.queue_pull(cx, container);
        } else {
            let act = Act::InspectImage { image: container.image.clone() };
            let id = cx.act(Some(&self.uid), What::Inspect(container.name.clone()), act);
            self.pulls.insert(container.name.clone(), Pull::Inspecting(id));
        }
        None
    }

    /// No registry and no runtime can know such an image; only a changed spec mends it.
    fn image_has_no_name(&mut self, cx: &mut Cx<'_>, container: &Container) {
        let image = &container.image;
        let text = format!(
            "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": invalid reference format"
        );
        self.say(cx, Some(&container.name), true, "InspectFailed", text.clone());
        self.not_started(cx, &container.name, "InvalidImageName", text);
        self.pulls.insert(container.name.clone(), Pull::Backoff { until: cx.now.mono + MUCH_LATER });
    }

    /// Answer of a look for an image.
    pub(super) fn inspected(&mut self, cx: &mut Cx<'_>, id: EffectId, name: &ContainerName, result: Result<Outcome, CallError>) {
        if self.pulls.get(name) != Some(&Pull::Inspecting(id)) {
            return;
        }
        let Some(container) = self.pod.as_ref().and_then(|p| p.container(name.as_str())).cloned() else { return };
        let image = &container.image;
        match result {
            Ok(Outcome::Image(Some(found))) => {
                let text = format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
                self.say(cx, Some(name), false, "Pulled", text);
                self.pulls.insert(name.clone(), Pull::Ready(found));
            }
            Ok(_) if container.pull_policy == PullPolicy::Never => {
                let text = format!("Container image \"{image}\" is not present with pull policy of Never");
                self.say(cx, Some(name), true, "ErrImageNeverPull", text.clone());
                self.not_started(cx, name, "ErrImageNeverPull", text);
                self.pulls.insert(name.clone(), Pull::Backoff { until: cx.now.mono + LATER });
            }
            Ok(_) => self.queue_pull(cx, &container),
            Err(error) if error.kind == CallErrorKind::InvalidImageName => {
                let text = format!("Failed to apply default image tag \"{image}\": {}", error.message);
                self.say(cx, Some(name), true, "InspectFailed", text.clone());
                self.not_started(cx, name, "InvalidImageName", text);
                self.pulls.insert(name.clone(), Pull::Backoff { until: cx.now.mono + LATER });
            }
            Err(error) => {
                let text = format!("Failed to inspect image \"{image}\": {}", error.message);
                self.say(cx, Some(name), true, "InspectFailed", text.clone());
                self.not_started(cx, name, "ImageInspectError", text);
                self.pulls.insert(name.clone(), Pull::Backoff { until: cx.now.mono + LATER });
            }
        }
    }

    /// Answer of a pull.
    pub(super) fn pulled(&mut self, cx: &mut Cx<'_>, id: EffectId, name: &ContainerName, result: Result<Outcome, CallError>) {
        let since = match self.pulls.get(name) {
            Some(Pull::Pulling { id: mine, since }) if *mine == id => *since,
            _ => return,
        };
        let Some(container) = self.pod.as_ref().and_then(|p| p.container(name.as_str())).cloned() else { return };
        let spec_image = &container.image;
        match result {
            Ok(Outcome::Pulled { image, took }) => {
                let text = format!(
                    "Successfully pulled image \"{spec_image}\" in {} ({} including waiting). Image size: {} bytes.",
                    go_duration(took),
                    go_duration(cx.now.mono.since(since)),
                    image.size
                );
                self.say(cx, Some(name), false, "Pulled", text);
                self.waiting.remove(name);
                self.pull_backoff.remove(spec_image);
                self.pulls.insert(name.clone(), Pull::Ready(image));
            }
            Ok(_) => {
                self.pulls.remove(name);
            }
            Err(error) if error.kind == CallErrorKind::Cancelled => {
                self.pulls.remove(name);
            }
            Err(error) => {
                let (reason, message) = pull_failure(spec_image, &error);
                self.say(cx, Some(name), true, "Failed", format!("Failed to pull image \"{spec_image}\": {}", error.message));
                self.say(cx, Some(name), true, "Failed", format!("Error: {reason}"));
                self.not_started(cx, name, reason, message.clone());
                self.pulls.insert(name.clone(), Pull::Asking { reason, error: message });
                self.ask_after_failure(cx, &container, Cause::ImagePullFailed);
            }
        }
    }

    /// The policy has said when to pull again.
    pub(super) fn pull_later(&mut self, cx: &mut Cx<'_>, container: &Container, delay: Duration) {
        let Some(Pull::Asking { reason, error }) = self.pulls.get(&container.name).cloned() else { return };
        let text = format!("Back-off pulling image \"{}\"", container.image);
        self.say(cx, Some(&container.name), false, "BackOff", text.clone());
        self.not_started(cx, &container.name, "ImagePullBackOff", format!("{text}: {reason}: {error}"));
        let until = cx.now.mono + delay;
        cx.wake_at(until);
        self.pulls.insert(container.name.clone(), Pull::Backoff { until });
    }

    fn queue_pull(&mut self, cx: &mut Cx<'_>, container: &Container) {
        self.pulls.insert(container.name.clone(), Pull::Queued { since: cx.now.mono });
        cx.shared.pulls.queue.push_back((self.uid.clone(), container.name.clone()));
        self.pull_if_its_turn(cx, container);
    }

    /// Begins what has come to the front of the queue, whether or not it is the next thing wanted: nobody behind it waits for long.
    pub(super) fn pull_queued(&mut self, cx: &mut Cx<'_>, pod: &Pod) {
        let queued: Vec<ContainerName> =
            self.pulls.iter().filter(|(_, p)| matches!(p, Pull::Queued { .. })).map(|(name, _)| name.clone()).collect();
        for name in queued {
            if let Some(container) = pod.container(name.as_str()) {
                self.pull_if_its_turn(cx, container);
            }
        }
    }

    fn pull_if_its_turn(&mut self, cx: &mut Cx<'_>, container: &Container) {
        let Some(Pull::Queued { since }) = self.pulls.get(&container.name) else { return };
        let since = *since;
        let mine = cx.shared.pulls.queue.front().is_some_and(|(uid, name)| *uid == self.uid && *name == container.name);
        let Some(pod) = self.pod.clone().filter(|_| mine && cx.shared.pulls.running.len() < cx.config().parallel_pulls) else {
            return;
        };
        cx.shared.pulls.queue.pop_front();
        self.say(cx, Some(&container.name), false, "Pulling", format!("Pulling image \"{}\"", container.image));
        let act = Act::PullImage { pod, image: container.image.clone() };
        let id = cx.act(Some(&self.uid), What::Pull(container.name.clone()), act);
        cx.shared.pulls.running.insert(id);
        self.pulls.insert(container.name.clone(), Pull::Pulling { id, since });
        if let Some((next, _)) = cx.shared.pulls.queue.front() {
            cx.touched.insert(next.clone());
        }
    }

    /// A container cannot be started for now: shown, and counted.
    pub(super) fn not_started(
        &mut self,
        cx: &mut Cx<'_>,
        name: &ContainerName,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        if let Some(kind) = self.pod.as_ref().and_then(|pod| pod.container(name.as_str())).map(|container| container.kind) {
            cx.out.push(Effect::Count(Count::NotStarted { kind, code: reason }));
        }
        self.wait(name, reason, message);
    }

    pub(super) fn wait(&mut self, name: &ContainerName, reason: &str, message: impl Into<String>) {
        self.waiting.insert(name.clone(), Waiting { reason: reason.to_owned(), message: message.into() });
        self.status_due = true;
    }

    /// Lets every pull and look for an image go.
    pub(super) fn drop_pulls(&mut self, cx: &mut Cx<'_>) {
        for pull in self.pulls.values() {
            match pull {
                Pull::Pulling { id, .. } | Pull::Inspecting(id) => cx.cancel(*id),
                _ => {}
            }
        }
        self.pulls.clear();
        cx.shared.unqueue(&self.uid);
        if let Some((next, _)) = cx.shared.pulls.queue.front() {
            cx.touched.insert(next.clone());
        }
    }
}

fn pull_failure(image: &str, error: &CallError) -> (&'static str, String) {
    match error.kind {
        CallErrorKind::RegistryUnavailable => (
            "RegistryUnavailable",
            format!("image pull failed for {image} because the registry is unavailable: {}", error.message),
        ),
        CallErrorKind::SignatureInvalid => (
            "SignatureValidationFailed",
            format!("image pull failed for {image} because the signature validation failed: {}", error.message),
        ),
        _ => ("ErrImagePull", error.message.clone()),
    }
}
