//! One stream of events, from its opening to its end.

use std::pin::pin;
use std::time::Duration;

use polylet_core::event::Hint;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::is_refusal;
use crate::client::Messages;
use crate::error::CallError;

/// A server written in Go answers the opening of a stream only when it has a first message. One that has answered another call
/// meanwhile, and has not refused this long after that, has agreed.
const SILENCE_IS_CONSENT: Duration = Duration::from_millis(100);

/// Why a stream is over.
pub(super) enum Ended {
    /// Nobody takes the hints any more.
    Unwanted,
    /// The peer does not offer it.
    Refused(CallError),
    /// The connection could not be made, or broke, or was ended by the peer (None).
    Broken(Option<CallError>),
}

/// Opens a stream and passes on what it says. Once the peer has agreed, `agreed` is called and one [`Hint::Everything`] stands
/// for whatever happened before. `other_call` is any call to the same peer.
pub(super) async fn follow<A>(
    other_call: impl Future,
    open: impl Future<Output = Result<Messages<A>, CallError>>,
    out: &mpsc::Sender<Hint>,
    agreed: impl Fn(),
    read: impl Fn(A) -> Option<Hint>,
) -> Ended {
    let mut open = pin!(open);
    let silence = async {
        other_call.await;
        tokio::time::sleep(SILENCE_IS_CONSENT).await;
    };
    let early = tokio::select! {
        // The stream is asked for first.
        biased;
        opened = &mut open => Some(opened),
        () = silence => None,
        () = out.closed() => return Ended::Unwanted,
    };
    let mut missed = true;
    let opened = match early {
        Some(opened) => opened,
        None => {
            agreed();
            loop {
                tokio::select! {
                    opened = &mut open => break opened,
                    sent = send_everything(out), if missed => if sent { missed = false } else { return Ended::Unwanted },
                    () = out.closed() => return Ended::Unwanted,
                }
            }
        }
    };
    let mut messages = match opened {
        Ok(messages) => messages,
        Err(error) if is_refusal(&error) => return Ended::Refused(error),
        Err(error) => return Ended::Broken(Some(error)),
    };
    agreed();
    loop {
        // Both are cancel safe: a message that was not taken stays in the stream, a place that was not taken stays free.
        tokio::select! {
            message = messages.next() => match message {
                Ok(Some(message)) => if let (Some(hint), false) = (read(message), missed) {
                    match out.try_send(hint) {
                        Ok(()) => {}
                        Err(TrySendError::Full(_)) => missed = true,
                        Err(TrySendError::Closed(_)) => return Ended::Unwanted,
                    }
                },
                Ok(None) => return Ended::Broken(None),
                Err(error) => return Ended::Broken(Some(error)),
            },
            sent = send_everything(out), if missed => if sent { missed = false } else { return Ended::Unwanted },
            () = out.closed() => return Ended::Unwanted,
        }
    }
}

/// False if nobody takes the hints any more.
async fn send_everything(out: &mpsc::Sender<Hint>) -> bool {
    out.send(Hint::Everything).await.is_ok()
}
