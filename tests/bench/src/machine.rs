//! What the figures were measured on.

use anyhow::Context;
use polylet_machine::facts::MachineFacts;

use crate::figures::Figures;

/// Facts of the machine, as text.
pub(crate) fn facts(figures: &mut Figures) -> anyhow::Result<()> {
    let machine = MachineFacts::read()?;
    let cpus = std::fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let model =
        cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':')).map_or("", |(_, name)| name.trim());
    let system = rustix::system::uname();
    let cgroups = if std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { "v2" } else { "v1" };
    figures.put("machine_cores", machine.cpus.to_string());
    figures.put("machine_processor", model);
    figures.put("machine_memory", format!("{} MiB", machine.memory >> 20));
    figures.put("machine_kernel", system.release().to_string_lossy());
    figures.put("machine_cgroups", cgroups);
    figures.put("agent_version", env!("CARGO_PKG_VERSION"));
    let load = std::fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
    figures.put("machine_load_before", load.split_whitespace().next().unwrap_or_default());
    Ok(())
}
