//! The image lane of each container, and of each image that it mounts: look, pull, or wait out the backoff. Pulls go through the node's queue, beside everything else.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::effect::{Act, Count, Effect};
use crate::event::{CallError, CallErrorKind, Outcome};
use crate::id::{ContainerName, EffectId};
use crate::observed::Image;
use crate::pod::{Container, ImageVolume, Pod, PullPolicy, is_reference};
use crate::question::restart::Cause;
use crate::restart::go_duration;
use crate::status::Waiting;
use crate::time::Mono;

use super::cx::{Cx, ImageKey, What};
use super::worker::{Pull, PullFailure, Worker};

/// After a failure that nothing but a change of the spec can mend.
const MUCH_LATER: Duration = Duration::from_secs(300);
/// After a failure that only a change on the node can mend.
const LATER: Duration = Duration::from_secs(10);

/// One image that a container needs.
struct Wanted {
    key: ImageKey,
    /// The container; of an image that it mounts, with that one's reference and pull policy.
    spec: Container,
}

impl Wanted {
    fn of(container: &Container) -> Self {
        Self { key: ImageKey { container: container.name.clone(), volume: None }, spec: container.clone() }
    }

    fn mounted(container: &Container, mounted: &ImageVolume) -> Self {
        let key = ImageKey { container: container.name.clone(), volume: Some(mounted.volume.clone()) };
        let (image, image_as_written) = (mounted.image.clone(), mounted.image_as_written.clone());
        Self { key, spec: Container { image, image_as_written, pull_policy: mounted.pull_policy, ..container.clone() } }
    }

    /// What the key stands for in the pod as it is now.
    fn find(pod: &Pod, key: &ImageKey) -> Option<Self> {
        let container = pod.container(key.container.as_str())?;
        match &key.volume {
            None => Some(Self::of(container)),
            Some(volume) => container.image_volumes.iter().find(|v| v.volume == *volume).map(|v| Self::mounted(container, v)),
        }
    }
}

impl Worker {
    /// The image of a container, once it is there. Begins what is needed to get it.
    pub(super) fn image(&mut self, cx: &mut Cx<'_>, container: &Container) -> Option<Image> {
        self.get(cx, &Wanted::of(container))
    }

    /// The images that a container mounts, by volume, once all are there. Begins what is needed to get them.
    pub(super) fn mounted_images(&mut self, cx: &mut Cx<'_>, container: &Container) -> Option<BTreeMap<String, Image>> {
        let mut found = BTreeMap::new();
        for mounted in &container.image_volumes {
            let image = self.get(cx, &Wanted::mounted(container, mounted));
            found.extend(image.map(|image| (mounted.volume.clone(), image)));
        }
        (found.len() == container.image_volumes.len()).then_some(found)
    }

    /// Something that the container needs is being looked for or pulled.
    pub(super) fn is_getting_images(&self, container: &ContainerName) -> bool {
        self.pulls.iter().any(|(key, pull)| key.container == *container && pull.in_progress())
    }

    /// A container has got what it needed.
    pub(super) fn forget_images(&mut self, container: &ContainerName) {
        self.pulls.retain(|key, _| key.container != *container);
    }

    fn get(&mut self, cx: &mut Cx<'_>, want: &Wanted) -> Option<Image> {
        if !self.pulls.contains_key(&want.key) && self.another_gets(want) {
            return None;
        }
        match self.pulls.get(&want.key) {
            Some(Pull::Ready(image)) => return Some(image.clone()),
            Some(Pull::Inspecting(_) | Pull::Pulling { .. } | Pull::Asking(_)) => return None,
            Some(Pull::Queued { .. }) => {
                self.pull_if_its_turn(cx, want);
                return None;
            }
            Some(Pull::Backoff { until, .. }) => {
                let until = *until;
                if !cx.reached(until) {
                    return None;
                }
            }
            None => {}
        }
        if !is_reference(&want.spec.image) {
            self.image_has_no_name(cx, want);
            return None;
        }
        if want.spec.pull_policy == PullPolicy::Always {
            self.queue_pull(cx, want);
        } else {
            let act = Act::InspectImage { image: want.spec.image.clone() };
            let id = cx.act(Some(&self.uid), What::Inspect(want.key.clone()), act);
            self.pulls.insert(want.key.clone(), Pull::Inspecting(id));
        }
        None
    }

    /// The pod is getting this image already, for something else, as it is not there: there will be nothing to pull.
    fn another_gets(&self, want: &Wanted) -> bool {
        let lacks = |of: &Container| of.image == want.spec.image && of.pull_policy == PullPolicy::IfNotPresent;
        let same =
            |key: &ImageKey| self.pod.as_ref().and_then(|pod| Wanted::find(pod, key)).is_some_and(|other| lacks(&other.spec));
        lacks(&want.spec) && self.pulls.iter().any(|(key, pull)| pull.in_progress() && same(key))
    }

    /// No registry and no runtime can know such an image; only a changed spec mends it.
    fn image_has_no_name(&mut self, cx: &mut Cx<'_>, want: &Wanted) {
        let (container, image) = (&want.spec, &want.spec.image_as_written);
        let text = format!(
            "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": invalid reference format"
        );
        self.say(cx, Some(&container.name), true, "InspectFailed", text.clone());
        self.without_image(cx, &container.name, "InvalidImageName", text);
        self.pulls.insert(want.key.clone(), Pull::Backoff { until: cx.now.mono + MUCH_LATER, after: None });
    }

    /// Answer of a look for an image.
    pub(super) fn inspected(&mut self, cx: &mut Cx<'_>, id: EffectId, key: &ImageKey, result: Result<Outcome, CallError>) {
        if self.pulls.get(key) != Some(&Pull::Inspecting(id)) {
            return;
        }
        let Some(want) = self.pod.as_ref().and_then(|pod| Wanted::find(pod, key)) else { return };
        let (container, name) = (&want.spec, &key.container);
        let image = &container.image_as_written;
        match result {
            Ok(Outcome::Image(Some(found))) => {
                let text = format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
                self.say(cx, Some(name), false, "Pulled", text);
                self.pulls.insert(key.clone(), Pull::Ready(found));
            }
            Ok(_) if container.pull_policy == PullPolicy::Never => {
                let text = format!("Container image \"{image}\" is not present with pull policy of Never");
                self.say(cx, Some(name), true, "ErrImageNeverPull", text.clone());
                self.without_image(cx, name, "ErrImageNeverPull", text);
                self.pulls.insert(key.clone(), Pull::Backoff { until: cx.now.mono + LATER, after: None });
            }
            Ok(_) => self.queue_pull(cx, &want),
            Err(error) if error.kind == CallErrorKind::InvalidImageName => {
                let text = format!("Failed to apply default image tag \"{image}\": {}", error.message);
                self.say(cx, Some(name), true, "InspectFailed", text.clone());
                self.without_image(cx, name, "InvalidImageName", text);
                self.pulls.insert(key.clone(), Pull::Backoff { until: cx.now.mono + LATER, after: None });
            }
            Err(error) => {
                let text = format!("Failed to inspect image \"{image}\": {}", error.message);
                self.say(cx, Some(name), true, "InspectFailed", text.clone());
                self.without_image(cx, name, "ImageInspectError", text);
                self.pulls.insert(key.clone(), Pull::Backoff { until: cx.now.mono + LATER, after: None });
            }
        }
    }

    /// Answer of a pull.
    pub(super) fn pulled(&mut self, cx: &mut Cx<'_>, id: EffectId, key: &ImageKey, result: Result<Outcome, CallError>) {
        let since = match self.pulls.get(key) {
            Some(Pull::Pulling { id: mine, since }) if *mine == id => *since,
            _ => return,
        };
        let Some(want) = self.pod.as_ref().and_then(|pod| Wanted::find(pod, key)) else { return };
        let (container, name) = (&want.spec, &key.container);
        let spec_image = &container.image_as_written;
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
                self.pulls.insert(key.clone(), Pull::Ready(image));
            }
            Ok(_) => {
                self.pulls.remove(key);
            }
            Err(error) if error.kind == CallErrorKind::Cancelled => {
                self.pulls.remove(key);
            }
            Err(error) => self.pull_failed(cx, &want, &error),
        }
    }

    fn pull_failed(&mut self, cx: &mut Cx<'_>, want: &Wanted, error: &CallError) {
        let (name, image) = (&want.key.container, &want.spec.image_as_written);
        let (reason, message) = pull_failure(image, error);
        self.say(cx, Some(name), true, "Failed", format!("Failed to pull image \"{image}\": {}", error.message));
        self.without_image(cx, name, reason, message.clone());
        self.pulls.insert(want.key.clone(), Pull::Asking(PullFailure { reason, error: message }));
        self.ask_after_failure(cx, &want.spec, Cause::ImagePullFailed);
    }

    /// The policy has said when to pull an image again, for whichever containers wait to be told.
    pub(super) fn pull_later(&mut self, cx: &mut Cx<'_>, image: &str, delay: Duration) {
        let Some(pod) = self.pod.clone() else { return };
        let asking = self.pulls.iter().filter_map(|(key, pull)| match pull {
            Pull::Asking(failure) => Some((Wanted::find(&pod, key)?, failure.clone())),
            _ => None,
        });
        let asking: Vec<(Wanted, PullFailure)> = asking.filter(|(want, _)| want.spec.image == image).collect();
        for (want, failure) in asking {
            self.wait_for_image(cx, &want, cx.now.mono + delay, failure);
        }
    }

    fn wait_for_image(&mut self, cx: &mut Cx<'_>, want: &Wanted, until: Mono, failure: PullFailure) {
        let name = &want.key.container;
        let text = format!("Back-off pulling image \"{}\"", want.spec.image_as_written);
        self.say(cx, Some(name), false, "BackOff", text.clone());
        self.without_image(cx, name, "ImagePullBackOff", format!("{text}: {}: {}", failure.reason, failure.error));
        cx.wake_at(until);
        self.pulls.insert(want.key.clone(), Pull::Backoff { until, after: Some(failure) });
    }

    /// Policies changed: of each image that a failed pull made wait, it is asked anew when to pull it. A container of each.
    pub(super) fn ask_again_for_images(&mut self) -> Vec<Container> {
        let mut asking = Vec::new();
        let waiting = self.pulls.iter().filter_map(|(key, pull)| match pull {
            Pull::Backoff { after: Some(failure), .. } => Some((key.clone(), failure.clone())),
            _ => None,
        });
        for (key, failure) in waiting.collect::<Vec<_>>() {
            let Some(want) = self.pod.as_ref().and_then(|pod| Wanted::find(pod, &key)) else { continue };
            self.pulls.insert(key, Pull::Asking(failure));
            // Its containers wait together.
            if asking.iter().all(|other: &Container| other.image != want.spec.image) {
                asking.push(want.spec);
            }
        }
        asking
    }

    /// The wait for an image is the pod's, whichever of its containers has seen the pull fail; so is the question how long it is.
    fn shared_wait(&self, cx: &Cx<'_>, want: &Wanted) -> Option<Pull> {
        let pod = self.pod.as_ref()?;
        let waits = |pull: &Pull| match pull {
            Pull::Backoff { until, after } => *until > cx.now.mono && after.is_some(),
            Pull::Asking(_) => true,
            _ => false,
        };
        let same =
            |key: &ImageKey| *key != want.key && Wanted::find(pod, key).is_some_and(|other| other.spec.image == want.spec.image);
        self.pulls.iter().find(|(key, pull)| waits(pull) && same(key)).map(|(_, pull)| pull.clone())
    }

    fn queue_pull(&mut self, cx: &mut Cx<'_>, want: &Wanted) {
        self.pulls.insert(want.key.clone(), Pull::Queued { since: cx.now.mono });
        cx.shared.pulls.queue.push_back((self.uid.clone(), want.key.clone()));
        self.pull_if_its_turn(cx, want);
    }

    /// Begins what has come to the front of the queue, whether or not it is the next thing wanted: nobody behind it waits for long.
    pub(super) fn pull_queued(&mut self, cx: &mut Cx<'_>, pod: &Pod) {
        let queued = self.pulls.iter().filter(|(_, pull)| matches!(pull, Pull::Queued { .. }));
        for want in queued.filter_map(|(key, _)| Wanted::find(pod, key)).collect::<Vec<_>>() {
            self.pull_if_its_turn(cx, &want);
        }
    }

    fn pull_if_its_turn(&mut self, cx: &mut Cx<'_>, want: &Wanted) {
        let Some(Pull::Queued { since }) = self.pulls.get(&want.key) else { return };
        let since = *since;
        let mine = cx.shared.pulls.queue.front().is_some_and(|(uid, key)| *uid == self.uid && *key == want.key);
        let Some(pod) = self.pod.clone().filter(|_| mine && cx.shared.pulls.running.len() < cx.config().parallel_pulls) else {
            return;
        };
        cx.shared.pulls.queue.pop_front();
        match self.shared_wait(cx, want) {
            Some(Pull::Backoff { until, after: Some(failure) }) => {
                self.wait_for_image(cx, want, until, failure);
                return self.next_pull(cx);
            }
            Some(asking) => {
                self.pulls.insert(want.key.clone(), asking);
                return self.next_pull(cx);
            }
            None => {}
        }
        self.say(cx, Some(&want.key.container), false, "Pulling", format!("Pulling image \"{}\"", want.spec.image_as_written));
        let (rate, now) = (cx.config().pull_rate, cx.now.mono);
        if rate.is_none_or(|rate| cx.shared.pulls.bucket.take(rate, now)) {
            let act = Act::PullImage { pod, image: want.spec.image.clone() };
            let id = cx.act(Some(&self.uid), What::Pull(want.key.clone()), act);
            cx.shared.pulls.running.insert(id);
            self.pulls.insert(want.key.clone(), Pull::Pulling { id, since });
        } else {
            let (operation, object) = ("PullImage".to_owned(), want.spec.image.clone());
            let message = "pull QPS exceeded".to_owned();
            self.pull_failed(cx, want, &CallError { operation, object, kind: CallErrorKind::Other, message });
        }
        self.next_pull(cx);
    }

    /// Whoever is at the front of the queue now is looked at.
    fn next_pull(&self, cx: &mut Cx<'_>) {
        if let Some((next, _)) = cx.shared.pulls.queue.front() {
            cx.touched.insert(next.clone());
        }
    }

    /// A container cannot be started because of its image: told as upstream tells every failed start, by the reason alone.
    fn without_image(&mut self, cx: &mut Cx<'_>, name: &ContainerName, reason: &'static str, message: String) {
        self.say(cx, Some(name), true, "Failed", format!("Error: {reason}"));
        self.not_started(cx, name, reason, message);
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

    /// The spec has changed: what was got, looked for, pulled or waited for under another reference is let go. So is a wait that any edit
    /// may have mended; only that after a pull is the image's.
    pub(super) fn drop_other_images(&mut self, cx: &mut Cx<'_>, before: &Pod, now: &Pod) {
        let reference = |pod, key| Wanted::find(pod, key).map(|want| want.spec.image);
        let edited = |key: &ImageKey| before.container(key.container.as_str()) != now.container(key.container.as_str());
        let other = self.pulls.iter().filter(|(key, pull)| {
            let waits = matches!(pull, Pull::Backoff { after: None, .. });
            reference(before, key) != reference(now, key) || waits && edited(key)
        });
        let other: Vec<ImageKey> = other.map(|(key, _)| key.clone()).collect();
        for key in &other {
            self.waiting.remove(&key.container);
        }
        self.drop_some_pulls(cx, &other);
    }

    /// Lets every pull and look for an image go.
    pub(super) fn drop_pulls(&mut self, cx: &mut Cx<'_>) {
        let all: Vec<ImageKey> = self.pulls.keys().cloned().collect();
        self.drop_some_pulls(cx, &all);
    }

    fn drop_some_pulls(&mut self, cx: &mut Cx<'_>, keys: &[ImageKey]) {
        for key in keys {
            if let Some(Pull::Pulling { id, .. } | Pull::Inspecting(id)) = self.pulls.remove(key) {
                cx.cancel(id);
            }
        }
        cx.shared.pulls.queue.retain(|(uid, key)| *uid != self.uid || !keys.contains(key));
        self.next_pull(cx);
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
