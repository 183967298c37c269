//! The child: reads a component on its standard input, writes the artifact to its standard output.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Gid, Resource, Rlimit, Signal, Uid};

use super::CompileLimits;
use crate::contract::COMPONENT_MAX;

/// First argument of the hidden subcommand.
pub const CHILD_ARGUMENT: &str = "policy-compile-child";
const MEMORY: &str = "--memory=";
const CPU: &str = "--cpu=";
/// The user `nobody`.
const NOBODY: u32 = 65534;

pub(super) fn arguments(limits: &CompileLimits) -> [OsString; 2] {
    [format!("{MEMORY}{}", limits.memory).into(), format!("{CPU}{}", limits.cpu.as_secs().max(1)).into()]
}

/// All of the child's `main`. Takes its limits from the arguments of the process; gives up what it can give up before it reads a
/// byte of the component. To be called before any thread is started.
pub fn compile_child_main() -> ExitCode {
    let compiled = limits().and_then(|limits| {
        confine(&limits).map_err(|error| format!("confine the compiler: {error}"))?;
        compile()
    });
    match compiled {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let _ = writeln!(io::stderr(), "{reason}");
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<(), String> {
    let mut component = Vec::new();
    let read = io::stdin().lock().take(COMPONENT_MAX as u64 + 1).read_to_end(&mut component);
    read.map_err(|error| format!("read the component: {error}"))?;
    let engine = crate::engine::compiling().map_err(|error| format!("{error:#}"))?;
    let artifact = engine.precompile_component(&component).map_err(|error| format!("{error:#}"))?;
    io::stdout().lock().write_all(&artifact).map_err(|error| format!("write the artifact: {error}"))
}

fn limits() -> Result<CompileLimits, String> {
    let number = |prefix: &str| {
        let mut args = std::env::args().filter_map(|arg| arg.strip_prefix(prefix).map(str::to_owned));
        args.next_back().and_then(|number| number.parse().ok()).ok_or_else(|| format!("{prefix}N is missing"))
    };
    Ok(CompileLimits { memory: number(MEMORY)?, cpu: Duration::from_secs(number(CPU)?), wall: Duration::MAX })
}

/// Gives up what a compiler does not need. The order counts: what needs privileges comes before they are dropped, and the wish to
/// die with the parent is forgotten by the kernel when they are.
fn confine(limits: &CompileLimits) -> io::Result<()> {
    close_inherited()?;
    let limit = |resource, most: u64, hard: u64| {
        rustix::process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(hard) })
    };
    limit(Resource::As, limits.memory, limits.memory)?;
    limit(Resource::Cpu, limits.cpu.as_secs(), limits.cpu.as_secs() + 1)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Fsize, 0, 0)?;
    // The three that are open, and no more: neither files nor sockets.
    limit(Resource::Nofile, 3, 3)?;
    rustix::process::nice(10)?;
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        // Counted by user, so that it binds only once we are nobody: neither processes nor threads.
        limit(Resource::Nproc, 0, 0)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Closes what the agent's own parent may have left open across `exec`; the agent's own descriptors close by themselves.
#[expect(unsafe_code, reason = "descriptors that nobody in this process owns can be closed by number only")]
fn close_inherited() -> io::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<i32> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: the process has just begun and owns nothing but its three standard streams; the directory read above is closed
        // again, and closing its number once more does nothing but fail.
        let _ = unsafe { rustix::io::try_close(number) };
    }
    Ok(())
}
