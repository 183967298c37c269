//! Pressure stall information: which share of the time tasks waited for something.

use std::fs;
use std::path::Path;

use polylet_core::sample::Sample;

/// Adds what the machine's tasks waited for. A kernel without these files has none.
pub(super) fn of_machine(sample: &mut Sample) {
    for (at, resource) in ["cpu", "memory", "io"].into_iter().enumerate() {
        let text = fs::read_to_string(Path::new("/proc/pressure").join(resource)).unwrap_or_default();
        for (kind, window, share) in parse(&text) {
            if (kind, window) == ("some", "10") {
                sample.stalls[at] = Some(share);
            }
            sample.facts.insert(format!("node.{resource}.stall.{kind}.{window}s"), i64::from(share));
        }
    }
}

/// Share of the last ten seconds in which some task of a cgroup waited, in hundredths of a percent. Only v2 knows it.
pub(super) fn some_10s(path: &Path) -> Option<u32> {
    let text = fs::read_to_string(path).ok()?;
    parse(&text).find(|(kind, window, _)| (*kind, *window) == ("some", "10")).map(|(_, _, share)| share)
}

/// `some avg10=0.12 avg60=0.00 avg300=0.00 total=42`: kind, window in seconds, hundredths of a percent.
fn parse(text: &str) -> impl Iterator<Item = (&str, &str, u32)> {
    text.lines().flat_map(|line| {
        let mut words = line.split_whitespace();
        let kind = words.next().unwrap_or_default();
        words.filter_map(move |word| {
            let (window, share) = word.strip_prefix("avg")?.split_once('=')?;
            let share: f64 = share.parse().ok()?;
            Some((kind, window, (share * 100.0).round() as u32))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_in_hundredths_of_a_percent() {
        let text = "some avg10=83.61 avg60=0.08 avg300=100.00 total=456037234\nfull avg10=0.00 avg60=x avg300=1.5 total=0\n";
        let expected =
            [("some", "10", 8361), ("some", "60", 8), ("some", "300", 10_000), ("full", "10", 0), ("full", "300", 150)];
        assert_eq!(parse(text).collect::<Vec<_>>(), expected);
    }
}
