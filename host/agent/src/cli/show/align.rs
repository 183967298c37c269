//! Columns as kubectl has them: a tab ends a cell, and a column is as wide as its widest cell in lines that follow each other.

/// Blanks between two columns.
const GAP: usize = 2;

/// Replaces tabs by as many blanks as make columns.
pub(super) fn align(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    // The last piece of a line is no cell: nothing stands behind it.
    let cells = |line: &Vec<&str>| line.len() - 1;
    let columns = lines.iter().map(cells).max().unwrap_or(0);
    let mut widths: Vec<Vec<usize>> = lines.iter().map(|line| vec![0; cells(line)]).collect();
    for column in 0..columns {
        let mut first = 0;
        while first < lines.len() {
            let length = lines[first..].iter().take_while(|line| cells(line) > column).count();
            let block = first..first + length;
            let width = lines[block.clone()].iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
            for line in block {
                widths[line][column] = width + GAP;
            }
            first += length.max(1);
        }
    }
    let mut out = String::new();
    for (line, widths) in lines.iter().zip(&widths) {
        let mut row = String::new();
        for (index, piece) in line.iter().enumerate() {
            match widths.get(index) {
                Some(width) => row.push_str(&format!("{piece:<width$}")),
                None => row.push_str(piece),
            }
        }
        out.push_str(row.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::align;

    #[test]
    fn columns_are_as_wide_as_what_stands_together() {
        let text = "Name:\tweb\nNamespace:\tdefault\nLong heading alone\nA:\t1\n  B:\t2\tx\n  CC:\t333\ty\nend";
        // One block for the first column of the lines from A on, and one of its own for the second column of the last two.
        let expected = "Name:       web\nNamespace:  default\nLong heading alone\nA:     1\n  B:   2    x\n  CC:  333  y\nend\n";
        assert_eq!(align(text), expected);
        assert_eq!(align(""), "");
        assert_eq!(align("\t\n"), "\n");
    }
}
