//! Compilation in a short-lived child process, so that neither a hostile component nor the compiler's memory stays with the agent.
//!
//! ```text
//! parent ── component ──► stdin  child: no privileges, no files, no threads, bounded memory and CPU time
//!        ◄── artifact ─── stdout
//! ```

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

mod child;

pub use child::{CHILD_ARGUMENT, compile_child_main};

/// Largest compiled artifact.
const ARTIFACT_MAX: u64 = 256 << 20;
/// What is kept of the child's complaints.
const COMPLAINT_MAX: u64 = 16 << 10;

/// How components are compiled.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// Program to start: one whose `main` hands over to [`compile_child_main`].
    pub command: PathBuf,
    /// Its arguments; the limits are added behind them.
    pub args: Vec<OsString>,
    /// What the child may use.
    pub limits: CompileLimits,
}

/// What one compilation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Address space in bytes.
    pub memory: u64,
    /// CPU time, in whole seconds.
    pub cpu: Duration,
    /// Time from start to end.
    pub wall: Duration,
}

impl Default for CompileLimits {
    fn default() -> Self {
        // Cost is CPU time. On a machine that is busy with other work it stands in line, and that is no fault of the component.
        Self { memory: 2 << 30, cpu: Duration::from_secs(60), wall: Duration::from_secs(240) }
    }
}

/// Why there is no artifact.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The child could not be started, or not be talked to.
    #[error("start the compiler {}", command.display())]
    Start {
        /// The program.
        command: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// It takes more than a policy may cost.
    #[error("is too costly to compile: {limit}")]
    TooCostly {
        /// The limit that it ran into.
        limit: Costly,
    },
    /// The compiler refused it.
    #[error("cannot be compiled: {reason}")]
    Refused {
        /// What the compiler said.
        reason: String,
    },
    /// The compiler died.
    #[error("killed the compiler ({status}): {said}")]
    Died {
        /// How.
        status: ExitStatus,
        /// What it said before.
        said: String,
    },
}

/// A limit of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Costly {
    /// Time from start to end.
    #[error("it took longer than {} s", .0.as_secs_f64())]
    Wall(Duration),
    /// CPU time.
    #[error("it took more than {} s of CPU time", .0.as_secs())]
    Cpu(Duration),
    /// Memory.
    #[error("it took more than {0} bytes of memory")]
    Memory(u64),
    /// Size of the result.
    #[error("the code is longer than {0} bytes")]
    Code(u64),
}

impl Compiler {
    /// A compiler that is this program itself, started again.
    pub fn this_program() -> Self {
        Self { command: "/proc/self/exe".into(), args: vec![CHILD_ARGUMENT.into()], limits: CompileLimits::default() }
    }

    /// Compiles a component that has been checked. Blocks for as long as that takes.
    pub(crate) fn compile(&self, component: &[u8]) -> Result<Vec<u8>, CompileError> {
        let failed = |cause| CompileError::Start { command: self.command.clone(), cause };
        let began = Instant::now();
        let mut child = Command::new(&self.command)
            .args(&self.args)
            .args(child::arguments(&self.limits))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(failed(io::Error::other("it has no pipes")));
        };
        let (artifact, status, said) = thread::scope(|scope| {
            let (send, received) = mpsc::channel();
            // A child that dies early does not read everything: that shows in its status.
            scope.spawn(move || drop(stdin.write_all(component)));
            let said = scope.spawn(move || read_up_to(stderr, COMPLAINT_MAX));
            scope.spawn(move || drop(send.send(read_up_to(stdout, ARTIFACT_MAX + 1))));
            let artifact = received.recv_timeout(self.limits.wall).ok();
            let status = end(&mut child, self.limits.wall.saturating_sub(began.elapsed()));
            (artifact, status, said.join().unwrap_or_default())
        });
        let status = status.map_err(failed)?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        match artifact {
            Some(artifact) if status.success() && artifact.len() as u64 <= ARTIFACT_MAX => Ok(artifact),
            Some(artifact) if artifact.len() as u64 > ARTIFACT_MAX => {
                Err(CompileError::TooCostly { limit: Costly::Code(ARTIFACT_MAX) })
            }
            _ => Err(self.why(status, said, began.elapsed() >= self.limits.wall)),
        }
    }

    fn why(&self, status: ExitStatus, said: String, late: bool) -> CompileError {
        let limit = match status.signal() {
            Some(SIGXCPU) => Some(Costly::Cpu(self.limits.cpu)),
            Some(SIGKILL) if late => Some(Costly::Wall(self.limits.wall)),
            // The hard limit of CPU time ends with a kill too.
            Some(SIGKILL) => Some(Costly::Cpu(self.limits.cpu)),
            _ if out_of_memory(&said) => Some(Costly::Memory(self.limits.memory)),
            _ => None,
        };
        match (limit, status.code()) {
            (Some(limit), _) => CompileError::TooCostly { limit },
            (None, Some(_)) => CompileError::Refused { reason: crate::failure::one_line(&said) },
            (None, None) => CompileError::Died { status, said: crate::failure::one_line(&said) },
        }
    }
}

const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// Waits for the end, and brings it about when the time is over.
fn end(child: &mut Child, within: Duration) -> io::Result<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < within {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()
}

fn read_up_to(from: impl Read, bytes: u64) -> Vec<u8> {
    let mut read = Vec::new();
    // What came before an error shows in the child's status too.
    let _ = from.take(bytes).read_to_end(&mut read);
    read
}

/// How an allocation that fails is told by Rust's runtime, by the kernel and by wasmtime.
fn out_of_memory(said: &str) -> bool {
    ["memory allocation of", "os error 12", "out of memory"].iter().any(|words| said.contains(words))
}
