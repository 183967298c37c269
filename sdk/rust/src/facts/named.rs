// Made from wit/facts.tsv by the test `facts` of this crate, run with POLYLET_BLESS=1. Do not edit.

use super::{Candidates, Column, Containers, Facts, ProbeHistory, RestartHistory};

impl Facts<'_> {
    /// `node.cpu.stall.some.10s`: Share of the last 10 s in which some task waits for cpu (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_cpu_stall_some_10s(self) -> Option<u64> {
        self.0.number("node.cpu.stall.some.10s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.cpu.stall.some.60s`: Share of the last 60 s in which some task waits for cpu (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_cpu_stall_some_60s(self) -> Option<u64> {
        self.0.number("node.cpu.stall.some.60s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.cpu.stall.some.300s`: Share of the last 300 s in which some task waits for cpu (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_cpu_stall_some_300s(self) -> Option<u64> {
        self.0.number("node.cpu.stall.some.300s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.cpu.stall.full.10s`: Share of the last 10 s in which all tasks wait for cpu (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_cpu_stall_full_10s(self) -> Option<u64> {
        self.0.number("node.cpu.stall.full.10s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.cpu.stall.full.60s`: Share of the last 60 s in which all tasks wait for cpu (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_cpu_stall_full_60s(self) -> Option<u64> {
        self.0.number("node.cpu.stall.full.60s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.cpu.stall.full.300s`: Share of the last 300 s in which all tasks wait for cpu (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_cpu_stall_full_300s(self) -> Option<u64> {
        self.0.number("node.cpu.stall.full.300s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.stall.some.10s`: Share of the last 10 s in which some task waits for memory (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_memory_stall_some_10s(self) -> Option<u64> {
        self.0.number("node.memory.stall.some.10s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.stall.some.60s`: Share of the last 60 s in which some task waits for memory (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_memory_stall_some_60s(self) -> Option<u64> {
        self.0.number("node.memory.stall.some.60s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.stall.some.300s`: Share of the last 300 s in which some task waits for memory (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_memory_stall_some_300s(self) -> Option<u64> {
        self.0.number("node.memory.stall.some.300s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.stall.full.10s`: Share of the last 10 s in which all tasks wait for memory (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_memory_stall_full_10s(self) -> Option<u64> {
        self.0.number("node.memory.stall.full.10s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.stall.full.60s`: Share of the last 60 s in which all tasks wait for memory (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_memory_stall_full_60s(self) -> Option<u64> {
        self.0.number("node.memory.stall.full.60s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.stall.full.300s`: Share of the last 300 s in which all tasks wait for memory (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_memory_stall_full_300s(self) -> Option<u64> {
        self.0.number("node.memory.stall.full.300s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.io.stall.some.10s`: Share of the last 10 s in which some task waits for I/O (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_io_stall_some_10s(self) -> Option<u64> {
        self.0.number("node.io.stall.some.10s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.io.stall.some.60s`: Share of the last 60 s in which some task waits for I/O (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_io_stall_some_60s(self) -> Option<u64> {
        self.0.number("node.io.stall.some.60s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.io.stall.some.300s`: Share of the last 300 s in which some task waits for I/O (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_io_stall_some_300s(self) -> Option<u64> {
        self.0.number("node.io.stall.some.300s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.io.stall.full.10s`: Share of the last 10 s in which all tasks wait for I/O (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_io_stall_full_10s(self) -> Option<u64> {
        self.0.number("node.io.stall.full.10s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.io.stall.full.60s`: Share of the last 60 s in which all tasks wait for I/O (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_io_stall_full_60s(self) -> Option<u64> {
        self.0.number("node.io.stall.full.60s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.io.stall.full.300s`: Share of the last 300 s in which all tasks wait for I/O (PSI of the machine). Unit: hundredths of a percent.
    #[must_use]
    pub fn node_io_stall_full_300s(self) -> Option<u64> {
        self.0.number("node.io.stall.full.300s").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.cpus`: Logical processors that are online. Unit: a plain number.
    #[must_use]
    pub fn node_cpus(self) -> Option<u64> {
        self.0.number("node.cpus").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.cpu.usage`: CPU used by everything on the machine. Unit: thousandths of a CPU, mean of the last sampling window.
    #[must_use]
    pub fn node_cpu_usage(self) -> Option<u64> {
        self.0.number("node.cpu.usage").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.cpu.load.1m`: Load average over one minute. Unit: hundredths.
    #[must_use]
    pub fn node_cpu_load_1m(self) -> Option<u64> {
        self.0.number("node.cpu.load.1m").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.usage`: Memory in use, with the page cache. Unit: bytes.
    #[must_use]
    pub fn node_memory_usage(self) -> Option<u64> {
        self.0.number("node.memory.usage").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.working-set`: Usage less inactive file pages. Unit: bytes.
    #[must_use]
    pub fn node_memory_working_set(self) -> Option<u64> {
        self.0.number("node.memory.working-set").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.rss`: Anonymous memory. Unit: bytes.
    #[must_use]
    pub fn node_memory_rss(self) -> Option<u64> {
        self.0.number("node.memory.rss").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.pods.working-set`: Working set of all pods together. Unit: bytes.
    #[must_use]
    pub fn node_memory_pods_working_set(self) -> Option<u64> {
        self.0.number("node.memory.pods.working-set").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.pods.limit`: Limit of all pods together, where it is enforced. Unit: bytes.
    #[must_use]
    pub fn node_memory_pods_limit(self) -> Option<u64> {
        self.0.number("node.memory.pods.limit").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.swap.capacity`: Swap space; 0 if there is none. Unit: bytes.
    #[must_use]
    pub fn node_memory_swap_capacity(self) -> Option<u64> {
        self.0.number("node.memory.swap.capacity").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.swap.available`: Swap space that is free. Unit: bytes.
    #[must_use]
    pub fn node_memory_swap_available(self) -> Option<u64> {
        self.0.number("node.memory.swap.available").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.memory.swap.usage`: Swap space in use. Unit: bytes.
    #[must_use]
    pub fn node_memory_swap_usage(self) -> Option<u64> {
        self.0.number("node.memory.swap.usage").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.disk.capacity`: Size of the file system of the agent's root directory (nodefs). Unit: bytes.
    #[must_use]
    pub fn node_disk_capacity(self) -> Option<u64> {
        self.0.number("node.disk.capacity").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.disk.available`: What is free of it. Unit: bytes.
    #[must_use]
    pub fn node_disk_available(self) -> Option<u64> {
        self.0.number("node.disk.available").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.disk.inodes`: Inodes that it has. Unit: a plain number.
    #[must_use]
    pub fn node_disk_inodes(self) -> Option<u64> {
        self.0.number("node.disk.inodes").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.disk.inodes.available`: Inodes of it that are free. Unit: a plain number.
    #[must_use]
    pub fn node_disk_inodes_available(self) -> Option<u64> {
        self.0.number("node.disk.inodes.available").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.image-disk.capacity`: Size of the file system of the images (imagefs). Unit: bytes.
    #[must_use]
    pub fn node_image_disk_capacity(self) -> Option<u64> {
        self.0.number("node.image-disk.capacity").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.image-disk.available`: What is free of it. Unit: bytes.
    #[must_use]
    pub fn node_image_disk_available(self) -> Option<u64> {
        self.0.number("node.image-disk.available").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.image-disk.inodes`: Inodes that it has. Unit: a plain number.
    #[must_use]
    pub fn node_image_disk_inodes(self) -> Option<u64> {
        self.0.number("node.image-disk.inodes").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.image-disk.inodes.available`: Inodes of it that are free. Unit: a plain number.
    #[must_use]
    pub fn node_image_disk_inodes_available(self) -> Option<u64> {
        self.0.number("node.image-disk.inodes.available").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.container-disk.capacity`: Size of the file system of the writable layers (containerfs). Unit: bytes.
    #[must_use]
    pub fn node_container_disk_capacity(self) -> Option<u64> {
        self.0.number("node.container-disk.capacity").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.container-disk.available`: What is free of it. Unit: bytes.
    #[must_use]
    pub fn node_container_disk_available(self) -> Option<u64> {
        self.0.number("node.container-disk.available").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.container-disk.inodes`: Inodes that it has. Unit: a plain number.
    #[must_use]
    pub fn node_container_disk_inodes(self) -> Option<u64> {
        self.0.number("node.container-disk.inodes").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.container-disk.inodes.available`: Inodes of it that are free. Unit: a plain number.
    #[must_use]
    pub fn node_container_disk_inodes_available(self) -> Option<u64> {
        self.0.number("node.container-disk.inodes.available").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.disk.layout`: 0: one file system for all; 1: images and writable layers on one of their own; 2: only images on one of their own. Unit: a number that stands for what the meaning says.
    #[must_use]
    pub fn node_disk_layout(self) -> Option<i64> {
        self.0.number("node.disk.layout")
    }


    /// `node.processes`: Processes and threads on the machine. Unit: a plain number.
    #[must_use]
    pub fn node_processes(self) -> Option<u64> {
        self.0.number("node.processes").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.processes.maximum`: Process numbers that the kernel has to give. Unit: a plain number.
    #[must_use]
    pub fn node_processes_maximum(self) -> Option<u64> {
        self.0.number("node.processes.maximum").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.uptime`: Time since the machine booted. Unit: milliseconds.
    #[must_use]
    pub fn node_uptime(self) -> Option<u64> {
        self.0.number("node.uptime").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.agent.uptime`: Time since the agent started. Unit: milliseconds.
    #[must_use]
    pub fn node_agent_uptime(self) -> Option<u64> {
        self.0.number("node.agent.uptime").and_then(|value| u64::try_from(value).ok())
    }


    /// `node.name`: Name of the node. Unit: a text; by `words.text`.
    #[must_use]
    pub fn node_name(self) -> Option<String> {
        self.0.text("node.name")
    }


    /// `pod.grace`: Termination grace period of the spec. Unit: milliseconds.
    #[must_use]
    pub fn pod_grace(self) -> Option<u64> {
        self.0.number("pod.grace").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.containers`: Containers of the pod, init containers included. Unit: a plain number.
    #[must_use]
    pub fn pod_containers(self) -> Option<u64> {
        self.0.number("pod.containers").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.restarts`: Restarts of all its containers. Unit: a plain number.
    #[must_use]
    pub fn pod_restarts(self) -> Option<u64> {
        self.0.number("pod.restarts").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.cpu.usage`: CPU used by the pod. Unit: thousandths of a CPU, mean of the last sampling window.
    #[must_use]
    pub fn pod_cpu_usage(self) -> Option<u64> {
        self.0.number("pod.cpu.usage").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.cpu.overhead`: CPU overhead of the pod's runtime class. Unit: thousandths of a CPU, mean of the last sampling window.
    #[must_use]
    pub fn pod_cpu_overhead(self) -> Option<u64> {
        self.0.number("pod.cpu.overhead").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.cpu.stall`: Share of the last 10 s in which some task of the pod waits for cpu (PSI). Unit: hundredths of a percent.
    #[must_use]
    pub fn pod_cpu_stall(self) -> Option<u64> {
        self.0.number("pod.cpu.stall").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.memory.working-set`: Working set of the pod. Unit: bytes.
    #[must_use]
    pub fn pod_memory_working_set(self) -> Option<u64> {
        self.0.number("pod.memory.working-set").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.memory.rss`: Anonymous memory of the pod. Unit: bytes.
    #[must_use]
    pub fn pod_memory_rss(self) -> Option<u64> {
        self.0.number("pod.memory.rss").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.memory.swap`: Swap that the pod uses. Unit: bytes.
    #[must_use]
    pub fn pod_memory_swap(self) -> Option<u64> {
        self.0.number("pod.memory.swap").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.memory.request`: Memory request of the whole pod with its overhead. Unit: bytes.
    #[must_use]
    pub fn pod_memory_request(self) -> Option<u64> {
        self.0.number("pod.memory.request").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.memory.limit`: Memory limit of the whole pod with its overhead. Unit: bytes.
    #[must_use]
    pub fn pod_memory_limit(self) -> Option<u64> {
        self.0.number("pod.memory.limit").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.memory.overhead`: Memory overhead of the pod's runtime class. Unit: bytes.
    #[must_use]
    pub fn pod_memory_overhead(self) -> Option<u64> {
        self.0.number("pod.memory.overhead").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.memory.stall`: As pod.cpu.stall, for memory. Unit: hundredths of a percent.
    #[must_use]
    pub fn pod_memory_stall(self) -> Option<u64> {
        self.0.number("pod.memory.stall").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.io.stall`: As pod.cpu.stall, for I/O. Unit: hundredths of a percent.
    #[must_use]
    pub fn pod_io_stall(self) -> Option<u64> {
        self.0.number("pod.io.stall").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.processes`: Processes of the pod. Unit: a plain number.
    #[must_use]
    pub fn pod_processes(self) -> Option<u64> {
        self.0.number("pod.processes").and_then(|value| u64::try_from(value).ok())
    }


    /// `pod.class.reported`: The class in the pod's status, if one was there before the node looked: 0 best-effort, 1 burstable, 2 guaranteed. Unit: a number that stands for what the meaning says.
    #[must_use]
    pub fn pod_class_reported(self) -> Option<i64> {
        self.0.number("pod.class.reported")
    }


    /// `pod.priority-class`: Name of the pod's priority class. Unit: a text; by `words.text`.
    #[must_use]
    pub fn pod_priority_class(self) -> Option<String> {
        self.0.text("pod.priority-class")
    }


    /// `pod.runtime-class`: Name of the pod's runtime class. Unit: a text; by `words.text`.
    #[must_use]
    pub fn pod_runtime_class(self) -> Option<String> {
        self.0.text("pod.runtime-class")
    }


    /// `container.started`: When the container was last started. Unit: milliseconds since the Unix epoch.
    #[must_use]
    pub fn container_started(self) -> Option<u64> {
        self.0.number("container.started").and_then(|value| u64::try_from(value).ok())
    }


    /// `container.cpu.usage`: CPU used by the container. Unit: thousandths of a CPU, mean of the last sampling window.
    #[must_use]
    pub fn container_cpu_usage(self) -> Option<u64> {
        self.0.number("container.cpu.usage").and_then(|value| u64::try_from(value).ok())
    }


    /// `container.memory.working-set`: Working set of the container. Unit: bytes.
    #[must_use]
    pub fn container_memory_working_set(self) -> Option<u64> {
        self.0.number("container.memory.working-set").and_then(|value| u64::try_from(value).ok())
    }


    /// `container.memory.rss`: Anonymous memory of the container. Unit: bytes.
    #[must_use]
    pub fn container_memory_rss(self) -> Option<u64> {
        self.0.number("container.memory.rss").and_then(|value| u64::try_from(value).ok())
    }


    /// `container.memory.swap`: Swap that the container uses. Unit: bytes.
    #[must_use]
    pub fn container_memory_swap(self) -> Option<u64> {
        self.0.number("container.memory.swap").and_then(|value| u64::try_from(value).ok())
    }


    /// `container.ready`: Whether the container is ready. Unit: 0 or 1.
    #[must_use]
    pub fn container_ready(self) -> Option<bool> {
        self.0.number("container.ready").map(|flag| flag != 0)
    }


    /// `container.image`: Image as the spec names it. Unit: a text; by `words.text`.
    #[must_use]
    pub fn container_image(self) -> Option<String> {
        self.0.text("container.image")
    }


    /// `backoff.current`: The default's entry: how long it waits after a failure; none without an entry. Unit: milliseconds.
    #[must_use]
    pub fn backoff_current(self) -> Option<u64> {
        self.0.number("backoff.current").and_then(|value| u64::try_from(value).ok())
    }


    /// `backoff.updated`: The default's entry: when it was last advanced; none without an entry. Unit: milliseconds since the Unix epoch.
    #[must_use]
    pub fn backoff_updated(self) -> Option<u64> {
        self.0.number("backoff.updated").and_then(|value| u64::try_from(value).ok())
    }


    /// `backoff.reset-after`: A failure that comes later than this after backoff.updated forgets the entry; as bounds.reset-after. Unit: milliseconds.
    #[must_use]
    pub fn backoff_reset_after(self) -> Option<u64> {
        self.0.number("backoff.reset-after").and_then(|value| u64::try_from(value).ok())
    }


    /// `failure.reason`: Reason in the container's status, such as ErrImagePull or OOMKilled. Unit: a text; by `words.text`.
    #[must_use]
    pub fn failure_reason(self) -> Option<String> {
        self.0.text("failure.reason")
    }


    /// `failure.message`: Message of the failure, or what the container left as its termination message; cut at 1 KiB. Unit: a text; by `words.text`.
    #[must_use]
    pub fn failure_message(self) -> Option<String> {
        self.0.text("failure.message")
    }


    /// `probe.attempts`: Attempts of this probe since the container was started, this one included. Unit: a plain number.
    #[must_use]
    pub fn probe_attempts(self) -> Option<u64> {
        self.0.number("probe.attempts").and_then(|value| u64::try_from(value).ok())
    }


    /// `probe.grace`: Termination grace period of the probe, where it has one. Unit: milliseconds.
    #[must_use]
    pub fn probe_grace(self) -> Option<u64> {
        self.0.number("probe.grace").and_then(|value| u64::try_from(value).ok())
    }


    /// `probe.output`: What came with the outcome: body, output or error; cut at 1 KiB. Unit: a text; by `words.text`.
    #[must_use]
    pub fn probe_output(self) -> Option<String> {
        self.0.text("probe.output")
    }
}

impl RestartHistory<'_> {
    /// `at`: End, or failure. Unit: milliseconds since the Unix epoch.
    #[must_use]
    pub fn at(self) -> Option<Column> {
        self.0.column("history", "at")
    }


    /// `ran-for`: How long it had run; 0 if it never ran. Unit: milliseconds.
    #[must_use]
    pub fn ran_for(self) -> Option<Column> {
        self.0.column("history", "ran-for")
    }


    /// `exit-code`: Exit code; not known if it never ran or nobody saw. Unit: a number that stands for what the meaning says.
    #[must_use]
    pub fn exit_code(self) -> Option<Column> {
        self.0.column("history", "exit-code")
    }


    /// `signal`: Number of the signal that ended it; not known if none did. Unit: a number that stands for what the meaning says.
    #[must_use]
    pub fn signal(self) -> Option<Column> {
        self.0.column("history", "signal")
    }


    /// `out-of-memory`: Whether the kernel killed it for its memory. Unit: 0 or 1.
    #[must_use]
    pub fn out_of_memory(self) -> Option<Column> {
        self.0.column("history", "out-of-memory")
    }


    /// `cause`: 0 exited, 1 unhealthy, 2 lost, 3 start-failed, 4 hook-failed, 5 image-pull-failed, 6 sandbox-failed. Unit: a number that stands for what the meaning says.
    #[must_use]
    pub fn cause(self) -> Option<Column> {
        self.0.column("history", "cause")
    }
}

impl ProbeHistory<'_> {
    /// `at`: When the attempt returned. Unit: milliseconds since the Unix epoch.
    #[must_use]
    pub fn at(self) -> Option<Column> {
        self.0.column("history", "at")
    }


    /// `verdict`: What was made of it: 0 success, 1 warning, 2 failure, 3 unknown. Unit: a number that stands for what the meaning says.
    #[must_use]
    pub fn verdict(self) -> Option<Column> {
        self.0.column("history", "verdict")
    }


    /// `latency`: How long the attempt took. Unit: milliseconds.
    #[must_use]
    pub fn latency(self) -> Option<Column> {
        self.0.column("history", "latency")
    }


    /// `status`: HTTP status, gRPC serving status or exit code; not known of other outcomes. Unit: a number that stands for what the meaning says.
    #[must_use]
    pub fn status(self) -> Option<Column> {
        self.0.column("history", "status")
    }


    /// `failure`: Why there was no answer, in the order of the contract's enum (0 timeout to 8 internal); not known if there was one. Unit: a number that stands for what the meaning says.
    #[must_use]
    pub fn failure(self) -> Option<Column> {
        self.0.column("history", "failure")
    }
}

impl Containers<'_> {
    /// `cpu.usage`: CPU used; known when a running pod is resized. Unit: thousandths of a CPU, mean of the last sampling window.
    #[must_use]
    pub fn cpu_usage(self) -> Option<Column> {
        self.0.column("containers", "cpu.usage")
    }


    /// `memory.working-set`: Working set; known when a running pod is resized. Unit: bytes.
    #[must_use]
    pub fn memory_working_set(self) -> Option<Column> {
        self.0.column("containers", "memory.working-set")
    }


    /// `memory.rss`: Anonymous memory; known when a running pod is resized. Unit: bytes.
    #[must_use]
    pub fn memory_rss(self) -> Option<Column> {
        self.0.column("containers", "memory.rss")
    }


    /// `disk.request`: Request of ephemeral storage. Unit: bytes.
    #[must_use]
    pub fn disk_request(self) -> Option<Column> {
        self.0.column("containers", "disk.request")
    }


    /// `disk.limit`: Limit of ephemeral storage. Unit: bytes.
    #[must_use]
    pub fn disk_limit(self) -> Option<Column> {
        self.0.column("containers", "disk.limit")
    }


    /// `oom-score.current`: oom_score_adj that the container runs with. Unit: a plain number.
    #[must_use]
    pub fn oom_score_current(self) -> Option<Column> {
        self.0.column("containers", "oom-score.current")
    }
}

impl Candidates<'_> {
    /// `cpu.usage`: CPU used by the pod. Unit: thousandths of a CPU, mean of the last sampling window.
    #[must_use]
    pub fn cpu_usage(self) -> Option<Column> {
        self.0.column("candidates", "cpu.usage")
    }


    /// `cpu.request`: CPU request of the whole pod with its overhead. Unit: thousandths of a CPU, mean of the last sampling window.
    #[must_use]
    pub fn cpu_request(self) -> Option<Column> {
        self.0.column("candidates", "cpu.request")
    }


    /// `cpu.stall`: Share of the last 10 s in which some task of the pod waits for cpu (PSI). Unit: hundredths of a percent.
    #[must_use]
    pub fn cpu_stall(self) -> Option<Column> {
        self.0.column("candidates", "cpu.stall")
    }


    /// `memory.working-set`: Working set, as in the candidate's record. Unit: bytes.
    #[must_use]
    pub fn memory_working_set(self) -> Option<Column> {
        self.0.column("candidates", "memory.working-set")
    }


    /// `memory.rss`: Anonymous memory. Unit: bytes.
    #[must_use]
    pub fn memory_rss(self) -> Option<Column> {
        self.0.column("candidates", "memory.rss")
    }


    /// `memory.growth`: Mean growth of the working set over the last minute; negative if it shrinks. Unit: bytes per second.
    #[must_use]
    pub fn memory_growth(self) -> Option<Column> {
        self.0.column("candidates", "memory.growth")
    }


    /// `memory.swap`: Swap that the pod uses. Unit: bytes.
    #[must_use]
    pub fn memory_swap(self) -> Option<Column> {
        self.0.column("candidates", "memory.swap")
    }


    /// `memory.limit`: Memory limit of the whole pod with its overhead; not known without one. Unit: bytes.
    #[must_use]
    pub fn memory_limit(self) -> Option<Column> {
        self.0.column("candidates", "memory.limit")
    }


    /// `memory.stall`: As cpu.stall, for memory. Unit: hundredths of a percent.
    #[must_use]
    pub fn memory_stall(self) -> Option<Column> {
        self.0.column("candidates", "memory.stall")
    }


    /// `io.stall`: As cpu.stall, for I/O. Unit: hundredths of a percent.
    #[must_use]
    pub fn io_stall(self) -> Option<Column> {
        self.0.column("candidates", "io.stall")
    }


    /// `disk.usage`: Writable layers, logs and local volumes together, as in the candidate's record. Unit: bytes.
    #[must_use]
    pub fn disk_usage(self) -> Option<Column> {
        self.0.column("candidates", "disk.usage")
    }


    /// `disk.request`: Request of ephemeral storage, as in the candidate's record. Unit: bytes.
    #[must_use]
    pub fn disk_request(self) -> Option<Column> {
        self.0.column("candidates", "disk.request")
    }


    /// `disk.limit`: Limit of ephemeral storage; not known without one. Unit: bytes.
    #[must_use]
    pub fn disk_limit(self) -> Option<Column> {
        self.0.column("candidates", "disk.limit")
    }


    /// `disk.rootfs`: Writable layers of the pod's containers. Unit: bytes.
    #[must_use]
    pub fn disk_rootfs(self) -> Option<Column> {
        self.0.column("candidates", "disk.rootfs")
    }


    /// `disk.logs`: Logs of the pod. Unit: bytes.
    #[must_use]
    pub fn disk_logs(self) -> Option<Column> {
        self.0.column("candidates", "disk.logs")
    }


    /// `disk.volumes`: Local volumes of the pod; hostPath has no statistics. Unit: bytes.
    #[must_use]
    pub fn disk_volumes(self) -> Option<Column> {
        self.0.column("candidates", "disk.volumes")
    }


    /// `inodes`: Inodes of writable layers, logs and local volumes together. Unit: a plain number.
    #[must_use]
    pub fn inodes(self) -> Option<Column> {
        self.0.column("candidates", "inodes")
    }


    /// `inodes.rootfs`: As disk.rootfs, in inodes. Unit: a plain number.
    #[must_use]
    pub fn inodes_rootfs(self) -> Option<Column> {
        self.0.column("candidates", "inodes.rootfs")
    }


    /// `inodes.logs`: As disk.logs, in inodes. Unit: a plain number.
    #[must_use]
    pub fn inodes_logs(self) -> Option<Column> {
        self.0.column("candidates", "inodes.logs")
    }


    /// `inodes.volumes`: As disk.volumes, in inodes. Unit: a plain number.
    #[must_use]
    pub fn inodes_volumes(self) -> Option<Column> {
        self.0.column("candidates", "inodes.volumes")
    }


    /// `processes`: Processes of the pod. Unit: a plain number.
    #[must_use]
    pub fn processes(self) -> Option<Column> {
        self.0.column("candidates", "processes")
    }


    /// `restarts`: Restarts of all its containers. Unit: a plain number.
    #[must_use]
    pub fn restarts(self) -> Option<Column> {
        self.0.column("candidates", "restarts")
    }


    /// `containers`: Containers of the pod, init containers included. Unit: a plain number.
    #[must_use]
    pub fn containers(self) -> Option<Column> {
        self.0.column("candidates", "containers")
    }


    /// `grace`: Termination grace period of the spec. Unit: milliseconds.
    #[must_use]
    pub fn grace(self) -> Option<Column> {
        self.0.column("candidates", "grace")
    }
}
