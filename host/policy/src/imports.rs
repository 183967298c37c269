//! The imports of the contract, answered from the state of the call alone.

use polylet_core::question::{Body, probe::Outcome};
use wasmtime::component::HasSelf;
use wasmtime::component::Linker;

use crate::bindings::{facts, log, settings, store, types, words};
use crate::call::{Call, Refused};

/// What a line of the log counts beside its text.
const LINE_OVERHEAD: usize = 16;

/// A linker that knows the contract's imports and nothing else.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Call>> {
    let mut linker = Linker::new(engine);
    crate::bindings::Policy::add_to_linker::<_, HasSelf<Call>>(&mut linker, |call| call)?;
    Ok(linker)
}

impl types::Host for Call {}

impl facts::Host for Call {
    fn number(&mut self, name: String) -> wasmtime::Result<Option<i64>> {
        self.charge(name.len())?;
        Ok(self.question.as_ref().and_then(|question| question.facts.numbers.get(&name).copied()))
    }

    fn column(&mut self, table: String, name: String) -> wasmtime::Result<Option<Vec<i64>>> {
        let column = self.question.as_ref().and_then(|question| question.facts.tables.get(&table)?.get(&name).cloned());
        self.charge(table.len() + name.len() + 8 * column.as_ref().map_or(0, Vec::len))?;
        Ok(column)
    }
}

impl Call {
    fn text(&mut self, find: impl for<'a> FnOnce(&'a Self) -> Option<&'a str>) -> wasmtime::Result<Option<String>> {
        let found = find(self).map(str::to_owned);
        self.charge(found.as_ref().map_or(0, String::len))?;
        Ok(found)
    }
}

impl words::Host for Call {
    fn uid(&mut self, of: u32) -> wasmtime::Result<Option<String>> {
        self.text(|call| Some(call.words()?.pods.get(of as usize)?.uid.as_str()))
    }

    fn name(&mut self, of: u32) -> wasmtime::Result<Option<String>> {
        self.text(|call| Some(call.words()?.pods.get(of as usize)?.name.as_str()))
    }

    fn namespace(&mut self, id: u32) -> wasmtime::Result<Option<String>> {
        self.text(|call| call.words()?.namespaces.get(id as usize).map(String::as_str))
    }

    fn controller(&mut self, id: u32) -> wasmtime::Result<Option<(String, String)>> {
        let found = self.words().and_then(|words| words.controllers.get(id as usize).cloned());
        self.charge(found.as_ref().map_or(0, |(kind, name)| kind.len() + name.len()))?;
        Ok(found)
    }

    fn label(&mut self, of: u32, key: String) -> wasmtime::Result<Option<String>> {
        let found = self.words().and_then(|words| words.pods.get(of as usize)?.labels.get(&key).cloned());
        self.charge(key.len() + found.as_ref().map_or(0, String::len))?;
        Ok(found)
    }

    fn annotation(&mut self, of: u32, key: String) -> wasmtime::Result<Option<String>> {
        let found = self.words().and_then(|words| words.pods.get(of as usize)?.annotations.get(&key).cloned());
        self.charge(key.len() + found.as_ref().map_or(0, String::len))?;
        Ok(found)
    }

    fn container(&mut self, index: u32) -> wasmtime::Result<Option<String>> {
        self.text(|call| {
            let words = call.words()?;
            match (call.body()?, index) {
                (Body::Qos(_), _) => words.containers.get(index as usize).map(String::as_str),
                (_, 0) => words.container.as_deref(),
                _ => None,
            }
        })
    }

    fn text(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        Call::text(self, |call| match call.words()?.texts.get(&name) {
            Some(text) => Some(text.as_str()),
            None if name == "probe.output" => output(call.body()?),
            None => None,
        })
    }
}

impl Call {
    fn words(&self) -> Option<&polylet_core::question::Words> {
        self.question.as_deref().map(|question| &question.words)
    }
}

/// What came with the outcome of a probe.
fn output(body: &Body) -> Option<&str> {
    match body {
        Body::Probe(question) => match &question.outcome {
            Outcome::Http { body_start, .. } => Some(body_start),
            Outcome::Exec { output_start, .. } => Some(output_start),
            Outcome::TcpOpen | Outcome::Grpc(_) | Outcome::Failed(_) => None,
        },
        _ => None,
    }
}

impl settings::Host for Call {
    fn config(&mut self) -> wasmtime::Result<String> {
        self.charge(self.config.len())?;
        Ok(self.config.as_ref().to_owned())
    }
}

impl store::Host for Call {
    fn get(&mut self, of: store::Bucket, key: String) -> wasmtime::Result<Option<Vec<u8>>> {
        let value = self.get(pod(of), &key);
        self.charge_store(key.len() + value.as_ref().map_or(0, Vec::len))?;
        Ok(value)
    }

    fn set(&mut self, of: store::Bucket, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), store::Refusal>> {
        self.charge_store(key.len() + value.len())?;
        Ok(self.set(pod(of), key, Some(value)).map_err(|refused| match refused {
            Refused::KeyTooLong => store::Refusal::KeyTooLong,
            Refused::ValueTooLong => store::Refusal::ValueTooLong,
            Refused::BucketFull => store::Refusal::BucketFull,
            Refused::NoSuchPod => store::Refusal::NoSuchPod,
        }))
    }

    fn remove(&mut self, of: store::Bucket, key: String) -> wasmtime::Result<()> {
        self.charge_store(key.len())?;
        // Nothing is there that could be removed, whatever the reason.
        let _ = self.set(pod(of), key, None);
        Ok(())
    }
}

fn pod(bucket: store::Bucket) -> Option<u32> {
    match bucket {
        store::Bucket::Policy => None,
        store::Bucket::Pod(index) => Some(index),
    }
}

impl log::Host for Call {
    fn write(&mut self, level: log::Level, mut message: String) -> wasmtime::Result<()> {
        self.charge(message.len())?;
        if level == log::Level::Error {
            self.last_error = Some(crate::failure::one_line(&message));
        }
        if self.log_left > 0 {
            cut(&mut message, self.log_left);
            // Shown on terminals and in the log of the agent, where it must not end a line and begin one of its own.
            message = message.replace(char::is_control, " ");
            self.log_left = self.log_left.saturating_sub(message.len() + LINE_OVERHEAD);
            let level = match level {
                log::Level::Debug => "debug",
                log::Level::Info => "info",
                log::Level::Warn => "warn",
                log::Level::Error => "error",
            };
            self.log.push((level.to_owned(), message));
        }
        Ok(())
    }
}

/// Cuts at a character's border.
fn cut(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes));
}
