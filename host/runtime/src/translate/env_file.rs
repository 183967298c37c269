//! Files of variables (`fileKeyRef`), which containers of the pod have written.
//!
//! A strict part of the shell's language: `NAME='value'`, nothing but the quotes around the value, which may go over several lines; blank
//! lines, and comments that begin with `#` on lines of their own or behind a value. Blanks after `=` make the value empty, as in a shell.

/// The value of the first entry of this name; None: there is none.
///
/// # Errors
/// The number of a line that is not of this form. What comes after the entry is not looked at.
pub(super) fn find(text: &[u8], name: &str) -> Result<Option<String>, usize> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        let line = line.trim_start_matches(BLANK);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or(number)?;
        if key.is_empty() || key.contains(BLANK) {
            return Err(number);
        }
        if value.starts_with(BLANK) {
            if key == name {
                return Ok(Some(String::new()));
            }
            continue;
        }
        let mut rest = value.strip_prefix('\'').ok_or(number)?;
        let mut whole = String::new();
        let after = loop {
            if let Some((end, after)) = rest.split_once('\'') {
                whole.push_str(end);
                break after.trim_start_matches(BLANK);
            }
            whole.push_str(rest);
            whole.push('\n');
            rest = lines.next().ok_or(number)?.1;
        };
        if !after.is_empty() && !after.starts_with('#') {
            return Err(number);
        }
        if key == name {
            return Ok(Some(whole));
        }
    }
    Ok(None)
}

const BLANK: [char; 2] = [' ', '\t'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let text = b"# a comment\n\n  \t\n A='1'\nB='two\n lines # here\n' # said\nC= 'x'\nD=''\nA='2'\nE='=#$(A)'\nnot an entry\nF='6'\n";
        for (name, expected) in [
            ("A", Ok(Some("1"))),
            ("B", Ok(Some("two\n lines # here\n"))),
            ("C", Ok(Some(""))),
            ("D", Ok(Some(""))),
            ("E", Ok(Some("=#$(A)"))),
            ("F", Err(12)),
            ("absent", Err(12)),
        ] {
            assert_eq!(find(text, name), expected.map(|value| value.map(str::to_owned)), "{name}");
        }
        assert_eq!(find(b"", "A"), Ok(None));
        assert_eq!(find(b"A='1'\r\nB='2'\r\n", "B"), Ok(Some("2".to_owned())));
        assert_eq!(find(b"A='\xff'", "A"), Ok(Some("\u{fffd}".to_owned())));
    }

    #[test]
    fn what_is_no_entry() {
        for text in [
            "A",
            "A=1",
            "A=\"1\"",
            "A=",
            "A ='1'",
            "A B='1'",
            "='1'",
            " = '1'",
            "A='1",
            "A='1\n\n",
            "A='1'x",
            "A='1''2'",
            "export A='1'",
            "A='1' x # y",
        ] {
            assert_eq!(find(text.as_bytes(), "A"), Err(1), "{text}");
        }
        assert_eq!(find(b"\n#\nB='x'y", "A"), Err(3));
    }
}
