//! Every script of `tests/scenarios` does what it says: see `polylet_tests::scenario`.

use std::path::PathBuf;

use polylet_tests::scenario::play;

/// As many as the project promises.
const AT_LEAST: usize = 60;

#[test]
fn every_script_does_what_it_says() {
    // As cargo says now: a binary that was built for another tree must not write into that.
    let krate = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let dir = krate.join("scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .expect("tests/scenarios is there")
        .map(|e| e.expect("it can be listed").path())
        .filter(|p| p.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= AT_LEAST, "{} scripts, at least {AT_LEAST} are promised", files.len());
    let update = std::env::var_os("UPDATE").is_some();
    let mut bad = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a script can be read");
        let played = play(&text);
        if update {
            std::fs::write(file, &played).expect("a script can be written");
        } else if played != text {
            let (n, (want, got)) = text
                .lines()
                .chain(std::iter::repeat(""))
                .zip(played.lines().chain(std::iter::repeat("")))
                .enumerate()
                .find(|(_, (a, b))| a != b)
                .expect("they differ");
            bad.push(format!("{}:{}\n  the script says: {want}\n  the node does:   {got}", file.display(), n + 1));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
