//! A terminal for a program that wants one.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::wait::patience;

/// A terminal: what is typed there, and what it shows.
#[derive(Debug)]
pub struct Terminal {
    keys: File,
    other_end: File,
    shown: String,
}

impl Terminal {
    /// One of this size.
    ///
    /// # Panics
    /// When the system gives none.
    pub fn open(columns: u16, rows: u16) -> Self {
        let keys: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&keys).and_then(|()| unlockpt(&keys)).expect("unlock the terminal");
        let name = ptsname(&keys, Vec::new()).expect("the terminal's name").into_string().expect("UTF-8");
        let other_end = File::options().read(true).write(true).open(name).expect("open the terminal");
        tcsetwinsize(&keys, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).expect("set its size");
        Self { keys: keys.into(), other_end, shown: String::new() }
    }

    /// Starts a program at it.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(&self, mut command: Command) -> Child {
        let end = || self.other_end.try_clone().expect("a second descriptor");
        command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("start the program")
    }

    /// Types this.
    ///
    /// # Panics
    /// When the terminal takes nothing.
    pub fn write(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("type");
    }

    /// Waits until the terminal shows this, after what was waited for before.
    ///
    /// # Panics
    /// When it does not, with what it shows instead.
    pub fn until(&mut self, wanted: &str) {
        let deadline = Instant::now() + patience();
        let mut bytes = [0; 4096];
        loop {
            if let Some(at) = self.shown.find(wanted) {
                self.shown.drain(..at + wanted.len());
                return;
            }
            assert!(Instant::now() < deadline, "{wanted:?} is not shown, but {:?}", self.shown);
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            if poll(&mut [PollFd::new(&self.keys, PollFlags::IN)], Some(&second)).expect("wait") > 0 {
                let read = self.keys.read(&mut bytes).expect("read what is shown");
                self.shown.push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        }
    }

    /// Whether each key is handed on as it is.
    ///
    /// # Panics
    /// When the terminal does not say.
    pub fn is_raw(&self) -> bool {
        !tcgetattr(&self.other_end).expect("its settings").local_modes.contains(LocalModes::ICANON)
    }
}
