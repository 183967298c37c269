//! `polylet exec`: a command in a container, with this terminal or these files as its streams.

use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use polylet_core::stream::{FromCommand, ToCommand};
use polylet_server::{AdminClient, ExecQuery, Session};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::SocketArgs;
use super::pod::{PodArgs, container};

/// Bytes of standard input that are read at once.
const PIECE: usize = 32 << 10;

/// What to run, and where.
#[derive(Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pod: PodArgs,
    /// The container; where nothing is said, the one of the annotation kubectl.kubernetes.io/default-container, or the first
    #[arg(short, long)]
    container: Option<String>,
    /// Pass this program's standard input on to the command
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give the command a terminal
    #[arg(short, long)]
    tty: bool,
    #[command(flatten)]
    socket: SocketArgs,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) async fn exec(args: ExecArgs) -> anyhow::Result<ExitCode> {
    let ExecArgs { pod, container: named, stdin, mut tty, socket, command } = args;
    let client = AdminClient::new(&socket.socket);
    let (uid, container) = container(&client, &pod, named).await?;
    let is_terminal = std::io::stdin().is_terminal();
    if tty && stdin && !is_terminal {
        say("Unable to use a TTY - input is not a terminal or the right kind of file");
        tty = false;
    }
    let query = ExecQuery { namespace: pod.namespace, name: uid, container, command, stdin, tty };
    let session = client.exec(&query).await?;
    // Dropped however this function is left.
    let raw = if tty && stdin { Some(Raw::enter()?) } else { None };
    let end = run(session, stdin, tty).await;
    drop(raw);
    match end? {
        End::Command(Ok(0)) => Ok(ExitCode::SUCCESS),
        End::Command(Ok(code)) => {
            say(&format!("command terminated with exit code {code}"));
            // What the system would make of it.
            Ok(ExitCode::from((code & 0xff) as u8))
        }
        End::Command(Err(text)) => bail!("{text}"),
        End::Signal(number) => Ok(ExitCode::from(128 + number)),
        End::Nobody => bail!("the agent went away before the command had ended; it may still run"),
    }
}

fn say(text: &str) {
    // Nobody may be left to read it.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// How it came to an end.
enum End {
    /// The command ended, or could not be run.
    Command(Result<i32, String>),
    /// This program was told to stop, or its reader has had enough.
    Signal(u8),
    /// The agent has gone.
    Nobody,
}

const SIGHUP: u8 = 1;
const SIGQUIT: u8 = 3;
const SIGPIPE: u8 = 13;
const SIGTERM: u8 = 15;

async fn run(session: Session, stdin: bool, tty: bool) -> anyhow::Result<End> {
    let Session { input, output } = session;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("listen for SIGHUP")?;
    let mut quit = signal(SignalKind::quit()).context("listen for SIGQUIT")?;
    let mut resized = signal(SignalKind::window_change()).context("listen for SIGWINCH")?;
    if tty {
        resize(&input).await;
    }
    if stdin {
        let input = input.clone();
        // Not waited for at the end: it may be reading.
        std::thread::Builder::new().name("stdin".into()).spawn(move || pass_on(&input)).context("read standard input")?;
    }
    let (tell, mut ended) = oneshot::channel();
    let write = move || drop(tell.send(show(output)));
    std::thread::Builder::new().name("output".into()).spawn(write).context("write standard output")?;
    loop {
        // Cancel-safe: signals and the end are kept until they are taken.
        tokio::select! {
            end = &mut ended => return end.unwrap_or(Ok(End::Nobody)),
            _ = terminate.recv() => return Ok(End::Signal(SIGTERM)),
            _ = hangup.recv() => return Ok(End::Signal(SIGHUP)),
            _ = quit.recv() => return Ok(End::Signal(SIGQUIT)),
            _ = resized.recv(), if tty => resize(&input).await,
        }
    }
}

/// Tells the command the size of this terminal, where it has one.
async fn resize(input: &mpsc::Sender<ToCommand>) {
    if let Ok(size) = tcgetwinsize(std::io::stdout()).or_else(|_| tcgetwinsize(std::io::stdin())) {
        // A command that has ended has no size.
        drop(input.send(ToCommand::Resize { width: size.ws_col, height: size.ws_row }).await);
    }
}

/// Passes standard input on until it ends.
fn pass_on(input: &mpsc::Sender<ToCommand>) {
    let mut stdin = std::io::stdin().lock();
    let mut piece = vec![0; PIECE];
    loop {
        let message = match stdin.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(0) => ToCommand::StdinEnd,
            Ok(read) => ToCommand::Stdin(piece[..read].to_vec()),
            Err(error) => {
                say(&format!("standard input: {error}"));
                ToCommand::StdinEnd
            }
        };
        let last = message == ToCommand::StdinEnd;
        if input.blocking_send(message).is_err() || last {
            return;
        }
    }
}

/// Writes what comes until the command has ended.
fn show(mut output: mpsc::Receiver<FromCommand>) -> anyhow::Result<End> {
    while let Some(message) = output.blocking_recv() {
        let written = match message {
            FromCommand::Stdout(bytes) => put(std::io::stdout(), &bytes),
            FromCommand::Stderr(bytes) => put(std::io::stderr(), &bytes),
            FromCommand::Ended(how) => return Ok(End::Command(how)),
        };
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(End::Signal(SIGPIPE)),
            other => other.context("write the command's output")?,
        }
    }
    Ok(End::Nobody)
}

fn put(mut to: impl Write, bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// A terminal that hands on each key as it is; dropped, it is as it was before.
struct Raw(Termios);

impl Raw {
    fn enter() -> anyhow::Result<Self> {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).context("ask for the terminal's settings")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Flush, &raw).context("change the terminal's settings")?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}
