//! The rankings, one for each starved resource. The default sees no shortage beyond the thresholds.

use polylet_sdk::Ask;
use polylet_sdk::eviction::{Candidate, Eviction, Shortage, StarvedResource, Victim};
use polylet_sdk::facts::Column;
use polylet_sdk::types::NodeFacts;
use polylet_upstream::eviction::{FileSystem, Layout, Parts, Row, Starved, rank, usage_of};

impl Eviction for crate::Default {
    fn rank(&self, ask: &Ask, _: &NodeFacts, shortage: &Shortage, candidates: &[Candidate]) -> Option<Vec<Victim>> {
        let starved = starved(shortage.starved);
        let order = rank(starved, &rows(ask, starved, candidates));
        let victim = |index| Victim { pod: candidates[index as usize].pod, grace: None, reason: String::new() };
        Some(order.into_iter().map(victim).collect())
    }
}

fn starved(resource: StarvedResource) -> Starved {
    match resource {
        StarvedResource::Memory => Starved::Memory,
        StarvedResource::Disk => Starved::Disk(FileSystem::Node),
        StarvedResource::Inodes => Starved::Inodes(FileSystem::Node),
        StarvedResource::ImageDisk => Starved::Disk(FileSystem::Image),
        StarvedResource::ImageInodes => Starved::Inodes(FileSystem::Image),
        StarvedResource::ContainerDisk => Starved::Disk(FileSystem::Container),
        StarvedResource::ContainerInodes => Starved::Inodes(FileSystem::Container),
        StarvedResource::Pids => Starved::Pids,
    }
}

fn rows(ask: &Ask, starved: Starved, candidates: &[Candidate]) -> Vec<Row> {
    let columns = ask.facts().candidates();
    match starved {
        Starved::Memory => {
            let row = |pod: &Candidate| Row { usage: pod.memory_usage, request: pod.memory_request, priority: pod.priority };
            candidates.iter().map(row).collect()
        }
        Starved::Pids => {
            let processes = columns.processes();
            rows_of(candidates, |row| at(processes.as_ref(), row))
        }
        Starved::Disk(file_system) => {
            let parts = [columns.disk_rootfs(), columns.disk_logs(), columns.disk_volumes()];
            let layout = layout(ask);
            rows_of(candidates, |row| usage_of(file_system, layout, parts_at(&parts, row)))
        }
        Starved::Inodes(file_system) => {
            let parts = [columns.inodes_rootfs(), columns.inodes_logs(), columns.inodes_volumes()];
            let layout = layout(ask);
            rows_of(candidates, |row| usage_of(file_system, layout, parts_at(&parts, row)))
        }
    }
}

/// Rows whose usage comes from columns; a pod without disk usage has no statistics at all.
fn rows_of(candidates: &[Candidate], usage: impl Fn(usize) -> u64) -> Vec<Row> {
    let row = |(index, pod): (usize, &Candidate)| Row {
        usage: pod.disk_usage.map(|_| usage(index)),
        request: pod.disk_request,
        priority: pod.priority,
    };
    candidates.iter().enumerate().map(row).collect()
}

fn parts_at(columns: &[Option<Column>; 3], row: usize) -> Parts {
    let [rootfs, logs, volumes] = columns.each_ref().map(|column| at(column.as_ref(), row));
    Parts { rootfs, logs, volumes }
}

/// What statistics do not tell is zero.
fn at(column: Option<&Column>, row: usize) -> u64 {
    column.and_then(|column| column.unsigned(row)).unwrap_or(0)
}

fn layout(ask: &Ask) -> Layout {
    match ask.facts().node_disk_layout() {
        Some(1) => Layout::Dedicated,
        Some(2) => Layout::Split,
        _ => Layout::Single,
    }
}
