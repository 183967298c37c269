// Made from wit/facts.tsv by the test `facts` of this crate, run with POLYLET_BLESS=1. Do not edit.

use super::{Candidates, Column, Containers, Facts, ProbeHistory, RestartHistory};

accessors! { Facts {
    /// `node.cpu.stall.some.10s`: Share of the last 10 s in which some task waits for cpu (PSI of the machine). Unit: hundredths of a percent.
    node_cpu_stall_some_10s: u64 = unsigned("node.cpu.stall.some.10s");
    /// `node.cpu.stall.some.60s`: Share of the last 60 s in which some task waits for cpu (PSI of the machine). Unit: hundredths of a percent.
    node_cpu_stall_some_60s: u64 = unsigned("node.cpu.stall.some.60s");
    /// `node.cpu.stall.some.300s`: Share of the last 300 s in which some task waits for cpu (PSI of the machine). Unit: hundredths of a percent.
    node_cpu_stall_some_300s: u64 = unsigned("node.cpu.stall.some.300s");
    /// `node.cpu.stall.full.10s`: Share of the last 10 s in which all tasks wait for cpu (PSI of the machine). Unit: hundredths of a percent.
    node_cpu_stall_full_10s: u64 = unsigned("node.cpu.stall.full.10s");
    /// `node.cpu.stall.full.60s`: Share of the last 60 s in which all tasks wait for cpu (PSI of the machine). Unit: hundredths of a percent.
    node_cpu_stall_full_60s: u64 = unsigned("node.cpu.stall.full.60s");
    /// `node.cpu.stall.full.300s`: Share of the last 300 s in which all tasks wait for cpu (PSI of the machine). Unit: hundredths of a percent.
    node_cpu_stall_full_300s: u64 = unsigned("node.cpu.stall.full.300s");
    /// `node.memory.stall.some.10s`: Share of the last 10 s in which some task waits for memory (PSI of the machine). Unit: hundredths of a percent.
    node_memory_stall_some_10s: u64 = unsigned("node.memory.stall.some.10s");
    /// `node.memory.stall.some.60s`: Share of the last 60 s in which some task waits for memory (PSI of the machine). Unit: hundredths of a percent.
    node_memory_stall_some_60s: u64 = unsigned("node.memory.stall.some.60s");
    /// `node.memory.stall.some.300s`: Share of the last 300 s in which some task waits for memory (PSI of the machine). Unit: hundredths of a percent.
    node_memory_stall_some_300s: u64 = unsigned("node.memory.stall.some.300s");
    /// `node.memory.stall.full.10s`: Share of the last 10 s in which all tasks wait for memory (PSI of the machine). Unit: hundredths of a percent.
    node_memory_stall_full_10s: u64 = unsigned("node.memory.stall.full.10s");
    /// `node.memory.stall.full.60s`: Share of the last 60 s in which all tasks wait for memory (PSI of the machine). Unit: hundredths of a percent.
    node_memory_stall_full_60s: u64 = unsigned("node.memory.stall.full.60s");
    /// `node.memory.stall.full.300s`: Share of the last 300 s in which all tasks wait for memory (PSI of the machine). Unit: hundredths of a percent.
    node_memory_stall_full_300s: u64 = unsigned("node.memory.stall.full.300s");
    /// `node.io.stall.some.10s`: Share of the last 10 s in which some task waits for I/O (PSI of the machine). Unit: hundredths of a percent.
    node_io_stall_some_10s: u64 = unsigned("node.io.stall.some.10s");
    /// `node.io.stall.some.60s`: Share of the last 60 s in which some task waits for I/O (PSI of the machine). Unit: hundredths of a percent.
    node_io_stall_some_60s: u64 = unsigned("node.io.stall.some.60s");
    /// `node.io.stall.some.300s`: Share of the last 300 s in which some task waits for I/O (PSI of the machine). Unit: hundredths of a percent.
    node_io_stall_some_300s: u64 = unsigned("node.io.stall.some.300s");
    /// `node.io.stall.full.10s`: Share of the last 10 s in which all tasks wait for I/O (PSI of the machine). Unit: hundredths of a percent.
    node_io_stall_full_10s: u64 = unsigned("node.io.stall.full.10s");
    /// `node.io.stall.full.60s`: Share of the last 60 s in which all tasks wait for I/O (PSI of the machine). Unit: hundredths of a percent.
    node_io_stall_full_60s: u64 = unsigned("node.io.stall.full.60s");
    /// `node.io.stall.full.300s`: Share of the last 300 s in which all tasks wait for I/O (PSI of the machine). Unit: hundredths of a percent.
    node_io_stall_full_300s: u64 = unsigned("node.io.stall.full.300s");
    /// `node.cpus`: Logical processors that are online. Unit: a plain number.
    node_cpus: u64 = unsigned("node.cpus");
    /// `node.cpu.usage`: CPU used by everything on the machine. Unit: thousandths of a CPU, mean of the last sampling window.
    node_cpu_usage: u64 = unsigned("node.cpu.usage");
    /// `node.cpu.load.1m`: Load average over one minute. Unit: hundredths.
    node_cpu_load_1m: u64 = unsigned("node.cpu.load.1m");
    /// `node.memory.usage`: Memory in use, with the page cache. Unit: bytes.
    node_memory_usage: u64 = unsigned("node.memory.usage");
    /// `node.memory.working-set`: Usage less inactive file pages. Unit: bytes.
    node_memory_working_set: u64 = unsigned("node.memory.working-set");
    /// `node.memory.rss`: Anonymous memory. Unit: bytes.
    node_memory_rss: u64 = unsigned("node.memory.rss");
    /// `node.memory.pods.working-set`: Working set of all pods together. Unit: bytes.
    node_memory_pods_working_set: u64 = unsigned("node.memory.pods.working-set");
    /// `node.memory.pods.limit`: Limit of all pods together, where it is enforced. Unit: bytes.
    node_memory_pods_limit: u64 = unsigned("node.memory.pods.limit");
    /// `node.memory.swap.capacity`: Swap space; 0 if there is none. Unit: bytes.
    node_memory_swap_capacity: u64 = unsigned("node.memory.swap.capacity");
    /// `node.memory.swap.available`: Swap space that is free. Unit: bytes.
    node_memory_swap_available: u64 = unsigned("node.memory.swap.available");
    /// `node.memory.swap.usage`: Swap space in use. Unit: bytes.
    node_memory_swap_usage: u64 = unsigned("node.memory.swap.usage");
    /// `node.disk.capacity`: Size of the file system of the agent's root directory (nodefs). Unit: bytes.
    node_disk_capacity: u64 = unsigned("node.disk.capacity");
    /// `node.disk.available`: What is free of it. Unit: bytes.
    node_disk_available: u64 = unsigned("node.disk.available");
    /// `node.disk.inodes`: Inodes that it has. Unit: a plain number.
    node_disk_inodes: u64 = unsigned("node.disk.inodes");
    /// `node.disk.inodes.available`: Inodes of it that are free. Unit: a plain number.
    node_disk_inodes_available: u64 = unsigned("node.disk.inodes.available");
    /// `node.image-disk.capacity`: Size of the file system of the images (imagefs). Unit: bytes.
    node_image_disk_capacity: u64 = unsigned("node.image-disk.capacity");
    /// `node.image-disk.available`: What is free of it. Unit: bytes.
    node_image_disk_available: u64 = unsigned("node.image-disk.available");
    /// `node.image-disk.inodes`: Inodes that it has. Unit: a plain number.
    node_image_disk_inodes: u64 = unsigned("node.image-disk.inodes");
    /// `node.image-disk.inodes.available`: Inodes of it that are free. Unit: a plain number.
    node_image_disk_inodes_available: u64 = unsigned("node.image-disk.inodes.available");
    /// `node.container-disk.capacity`: Size of the file system of the writable layers (containerfs). Unit: bytes.
    node_container_disk_capacity: u64 = unsigned("node.container-disk.capacity");
    /// `node.container-disk.available`: What is free of it. Unit: bytes.
    node_container_disk_available: u64 = unsigned("node.container-disk.available");
    /// `node.container-disk.inodes`: Inodes that it has. Unit: a plain number.
    node_container_disk_inodes: u64 = unsigned("node.container-disk.inodes");
    /// `node.container-disk.inodes.available`: Inodes of it that are free. Unit: a plain number.
    node_container_disk_inodes_available: u64 = unsigned("node.container-disk.inodes.available");
    /// `node.disk.layout`: 0: one file system for all; 1: images and writable layers on one of their own; 2: only images on one of their own. Unit: a number that stands for what the meaning says.
    node_disk_layout: i64 = code("node.disk.layout");
    /// `node.processes`: Processes and threads on the machine. Unit: a plain number.
    node_processes: u64 = unsigned("node.processes");
    /// `node.processes.maximum`: Process numbers that the kernel has to give. Unit: a plain number.
    node_processes_maximum: u64 = unsigned("node.processes.maximum");
    /// `node.uptime`: Time since the machine booted. Unit: milliseconds.
    node_uptime: u64 = unsigned("node.uptime");
    /// `node.agent.uptime`: Time since the agent started. Unit: milliseconds.
    node_agent_uptime: u64 = unsigned("node.agent.uptime");
    /// `node.name`: Name of the node. Unit: a text; by `words.text`.
    node_name: String = text("node.name");
    /// `pod.grace`: Termination grace period of the spec. Unit: milliseconds.
    pod_grace: u64 = unsigned("pod.grace");
    /// `pod.containers`: Containers of the pod, init containers included. Unit: a plain number.
    pod_containers: u64 = unsigned("pod.containers");
    /// `pod.restarts`: Restarts of all its containers. Unit: a plain number.
    pod_restarts: u64 = unsigned("pod.restarts");
    /// `pod.cpu.usage`: CPU used by the pod. Unit: thousandths of a CPU, mean of the last sampling window.
    pod_cpu_usage: u64 = unsigned("pod.cpu.usage");
    /// `pod.cpu.overhead`: CPU overhead of the pod's runtime class. Unit: thousandths of a CPU, mean of the last sampling window.
    pod_cpu_overhead: u64 = unsigned("pod.cpu.overhead");
    /// `pod.cpu.stall`: Share of the last 10 s in which some task of the pod waits for cpu (PSI). Unit: hundredths of a percent.
    pod_cpu_stall: u64 = unsigned("pod.cpu.stall");
    /// `pod.memory.working-set`: Working set of the pod. Unit: bytes.
    pod_memory_working_set: u64 = unsigned("pod.memory.working-set");
    /// `pod.memory.rss`: Anonymous memory of the pod. Unit: bytes.
    pod_memory_rss: u64 = unsigned("pod.memory.rss");
    /// `pod.memory.swap`: Swap that the pod uses. Unit: bytes.
    pod_memory_swap: u64 = unsigned("pod.memory.swap");
    /// `pod.memory.request`: Memory request of the whole pod with its overhead. Unit: bytes.
    pod_memory_request: u64 = unsigned("pod.memory.request");
    /// `pod.memory.limit`: Memory limit of the whole pod with its overhead. Unit: bytes.
    pod_memory_limit: u64 = unsigned("pod.memory.limit");
    /// `pod.memory.overhead`: Memory overhead of the pod's runtime class. Unit: bytes.
    pod_memory_overhead: u64 = unsigned("pod.memory.overhead");
    /// `pod.memory.stall`: As pod.cpu.stall, for memory. Unit: hundredths of a percent.
    pod_memory_stall: u64 = unsigned("pod.memory.stall");
    /// `pod.io.stall`: As pod.cpu.stall, for I/O. Unit: hundredths of a percent.
    pod_io_stall: u64 = unsigned("pod.io.stall");
    /// `pod.processes`: Processes of the pod. Unit: a plain number.
    pod_processes: u64 = unsigned("pod.processes");
    /// `pod.class.reported`: The class in the pod's status, if one was there before the node looked: 0 best-effort, 1 burstable, 2 guaranteed. Unit: a number that stands for what the meaning says.
    pod_class_reported: i64 = code("pod.class.reported");
    /// `pod.priority-class`: Name of the pod's priority class. Unit: a text; by `words.text`.
    pod_priority_class: String = text("pod.priority-class");
    /// `pod.runtime-class`: Name of the pod's runtime class. Unit: a text; by `words.text`.
    pod_runtime_class: String = text("pod.runtime-class");
    /// `container.started`: When the container was last started. Unit: milliseconds since the Unix epoch.
    container_started: u64 = unsigned("container.started");
    /// `container.cpu.usage`: CPU used by the container. Unit: thousandths of a CPU, mean of the last sampling window.
    container_cpu_usage: u64 = unsigned("container.cpu.usage");
    /// `container.memory.working-set`: Working set of the container. Unit: bytes.
    container_memory_working_set: u64 = unsigned("container.memory.working-set");
    /// `container.memory.rss`: Anonymous memory of the container. Unit: bytes.
    container_memory_rss: u64 = unsigned("container.memory.rss");
    /// `container.memory.swap`: Swap that the container uses. Unit: bytes.
    container_memory_swap: u64 = unsigned("container.memory.swap");
    /// `container.ready`: Whether the container is ready. Unit: 0 or 1.
    container_ready: bool = flag("container.ready");
    /// `container.image`: Image as the spec names it. Unit: a text; by `words.text`.
    container_image: String = text("container.image");
    /// `backoff.current`: The default's entry: how long it waits after a failure; none without an entry. Unit: milliseconds.
    backoff_current: u64 = unsigned("backoff.current");
    /// `backoff.updated`: The default's entry: when it was last advanced; none without an entry. Unit: milliseconds since the Unix epoch.
    backoff_updated: u64 = unsigned("backoff.updated");
    /// `backoff.reset-after`: A failure that comes later than this after backoff.updated forgets the entry; as bounds.reset-after. Unit: milliseconds.
    backoff_reset_after: u64 = unsigned("backoff.reset-after");
    /// `failure.reason`: Reason in the container's status, such as ErrImagePull or OOMKilled. Unit: a text; by `words.text`.
    failure_reason: String = text("failure.reason");
    /// `failure.message`: Message of the failure, or what the container left as its termination message; cut at 1 KiB. Unit: a text; by `words.text`.
    failure_message: String = text("failure.message");
    /// `probe.attempts`: Attempts of this probe since the container was started, this one included. Unit: a plain number.
    probe_attempts: u64 = unsigned("probe.attempts");
    /// `probe.grace`: Termination grace period of the probe, where it has one. Unit: milliseconds.
    probe_grace: u64 = unsigned("probe.grace");
    /// `probe.output`: What came with the outcome: body, output or error; cut at 1 KiB. Unit: a text; by `words.text`.
    probe_output: String = text("probe.output");
} }

accessors! { RestartHistory {
    /// `at`: End, or failure. Unit: milliseconds since the Unix epoch.
    at: Column = column("history", "at");
    /// `ran-for`: How long it had run; 0 if it never ran. Unit: milliseconds.
    ran_for: Column = column("history", "ran-for");
    /// `exit-code`: Exit code; not known if it never ran or nobody saw. Unit: a number that stands for what the meaning says.
    exit_code: Column = column("history", "exit-code");
    /// `signal`: Number of the signal that ended it; not known if none did. Unit: a number that stands for what the meaning says.
    signal: Column = column("history", "signal");
    /// `out-of-memory`: Whether the kernel killed it for its memory. Unit: 0 or 1.
    out_of_memory: Column = column("history", "out-of-memory");
    /// `cause`: 0 exited, 1 unhealthy, 2 lost, 3 start-failed, 4 hook-failed, 5 image-pull-failed, 6 sandbox-failed. Unit: a number that stands for what the meaning says.
    cause: Column = column("history", "cause");
} }

accessors! { ProbeHistory {
    /// `at`: When the attempt returned. Unit: milliseconds since the Unix epoch.
    at: Column = column("history", "at");
    /// `verdict`: What was made of it: 0 success, 1 warning, 2 failure, 3 unknown. Unit: a number that stands for what the meaning says.
    verdict: Column = column("history", "verdict");
    /// `latency`: How long the attempt took. Unit: milliseconds.
    latency: Column = column("history", "latency");
    /// `status`: HTTP status, gRPC serving status or exit code; not known of other outcomes. Unit: a number that stands for what the meaning says.
    status: Column = column("history", "status");
    /// `failure`: Why there was no answer, in the order of the contract's enum (0 timeout to 8 internal); not known if there was one. Unit: a number that stands for what the meaning says.
    failure: Column = column("history", "failure");
} }

accessors! { Containers {
    /// `cpu.usage`: CPU used; known of a pod that runs already. Unit: thousandths of a CPU, mean of the last sampling window.
    cpu_usage: Column = column("containers", "cpu.usage");
    /// `memory.working-set`: Working set; known of a pod that runs already. Unit: bytes.
    memory_working_set: Column = column("containers", "memory.working-set");
    /// `memory.rss`: Anonymous memory; known of a pod that runs already. Unit: bytes.
    memory_rss: Column = column("containers", "memory.rss");
    /// `disk.request`: Request of ephemeral storage. Unit: bytes.
    disk_request: Column = column("containers", "disk.request");
    /// `disk.limit`: Limit of ephemeral storage. Unit: bytes.
    disk_limit: Column = column("containers", "disk.limit");
    /// `oom-score.current`: oom_score_adj that the container runs with. Unit: a plain number.
    oom_score_current: Column = column("containers", "oom-score.current");
} }

accessors! { Candidates {
    /// `cpu.usage`: CPU used by the pod. Unit: thousandths of a CPU, mean of the last sampling window.
    cpu_usage: Column = column("candidates", "cpu.usage");
    /// `cpu.request`: CPU request of the whole pod with its overhead. Unit: thousandths of a CPU, mean of the last sampling window.
    cpu_request: Column = column("candidates", "cpu.request");
    /// `cpu.stall`: Share of the last 10 s in which some task of the pod waits for cpu (PSI). Unit: hundredths of a percent.
    cpu_stall: Column = column("candidates", "cpu.stall");
    /// `memory.working-set`: Working set, as in the candidate's record. Unit: bytes.
    memory_working_set: Column = column("candidates", "memory.working-set");
    /// `memory.rss`: Anonymous memory. Unit: bytes.
    memory_rss: Column = column("candidates", "memory.rss");
    /// `memory.growth`: Mean growth of the working set over the last minute; negative if it shrinks. Unit: bytes per second.
    memory_growth: Column = column("candidates", "memory.growth");
    /// `memory.swap`: Swap that the pod uses. Unit: bytes.
    memory_swap: Column = column("candidates", "memory.swap");
    /// `memory.limit`: Memory limit of the whole pod with its overhead; not known without one. Unit: bytes.
    memory_limit: Column = column("candidates", "memory.limit");
    /// `memory.stall`: As cpu.stall, for memory. Unit: hundredths of a percent.
    memory_stall: Column = column("candidates", "memory.stall");
    /// `io.stall`: As cpu.stall, for I/O. Unit: hundredths of a percent.
    io_stall: Column = column("candidates", "io.stall");
    /// `disk.usage`: Writable layers, logs and local volumes together, as in the candidate's record. Unit: bytes.
    disk_usage: Column = column("candidates", "disk.usage");
    /// `disk.request`: Request of ephemeral storage, as in the candidate's record. Unit: bytes.
    disk_request: Column = column("candidates", "disk.request");
    /// `disk.limit`: Limit of ephemeral storage; not known without one. Unit: bytes.
    disk_limit: Column = column("candidates", "disk.limit");
    /// `disk.rootfs`: Writable layers of the pod's containers. Unit: bytes.
    disk_rootfs: Column = column("candidates", "disk.rootfs");
    /// `disk.logs`: Logs of the pod. Unit: bytes.
    disk_logs: Column = column("candidates", "disk.logs");
    /// `disk.volumes`: Local volumes of the pod; hostPath has no statistics. Unit: bytes.
    disk_volumes: Column = column("candidates", "disk.volumes");
    /// `inodes`: Inodes of writable layers, logs and local volumes together. Unit: a plain number.
    inodes: Column = column("candidates", "inodes");
    /// `inodes.rootfs`: As disk.rootfs, in inodes. Unit: a plain number.
    inodes_rootfs: Column = column("candidates", "inodes.rootfs");
    /// `inodes.logs`: As disk.logs, in inodes. Unit: a plain number.
    inodes_logs: Column = column("candidates", "inodes.logs");
    /// `inodes.volumes`: As disk.volumes, in inodes. Unit: a plain number.
    inodes_volumes: Column = column("candidates", "inodes.volumes");
    /// `processes`: Processes of the pod. Unit: a plain number.
    processes: Column = column("candidates", "processes");
    /// `restarts`: Restarts of all its containers. Unit: a plain number.
    restarts: Column = column("candidates", "restarts");
    /// `containers`: Containers of the pod, init containers included. Unit: a plain number.
    containers: Column = column("candidates", "containers");
    /// `grace`: Termination grace period of the spec. Unit: milliseconds.
    grace: Column = column("candidates", "grace");
} }
