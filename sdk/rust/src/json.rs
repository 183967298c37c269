//! As much of JSON as a configuration takes, without a dependency: policies are small, and a serialisation library is not.

use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Flag(bool),
    /// A number as it was written; most are read as integers, and need no floating point.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object, in the order in which it was written.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// What it is, with an article.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Flag(_) => "a flag",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// A number without fraction or exponent that fits.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.parse().ok() } else { None }
    }

    /// A string.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// True or false.
    #[must_use]
    pub fn as_flag(&self) -> Option<bool> {
        if let Self::Flag(flag) = self { Some(*flag) } else { None }
    }

    /// An array.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Json]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    /// An object.
    #[must_use]
    pub fn as_object(&self) -> Option<&[(String, Json)]> {
        if let Self::Object(entries) = self { Some(entries) } else { None }
    }
}

/// For messages: scalars as they are, the rest by kind.
impl fmt::Display for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(formatter, "{flag}"),
            Self::Number(number) => formatter.write_str(number),
            Self::Text(text) => write!(formatter, "{text:?}"),
            other => formatter.write_str(other.kind()),
        }
    }
}

/// Parses one JSON value. Objects hold each key once; nesting ends at 64.
///
/// # Errors
/// Says what was expected, and at which line and column.
pub fn parse(text: &str) -> Result<Json, String> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.at < text.len() { Err(parser.expected("the end")) } else { Ok(value) }
}

const DEEPEST: usize = 64;

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEEPEST {
            return Err(self.expected("less nesting"));
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.text().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take_word("true") => Ok(Json::Flag(true)),
            _ if self.take_word("false") => Ok(Json::Flag(false)),
            _ if self.take_word("null") => Ok(Json::Null),
            _ => Err(self.expected("a JSON value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut entries: Vec<(String, Json)> = Vec::new();
        self.at += 1;
        if self.take(b'}') {
            return Ok(Json::Object(entries));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a field name in quotes"));
            }
            let name = self.text()?;
            if entries.iter().any(|(known, _)| *known == name) {
                return Err(format!("field `{name}` is given twice {}", self.place()));
            }
            if !self.take(b':') {
                return Err(self.expected("`:`"));
            }
            entries.push((name, self.value(depth + 1)?));
            match () {
                () if self.take(b',') => {}
                () if self.take(b'}') => return Ok(Json::Object(entries)),
                () => return Err(self.expected("`,` or `}`")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        let mut list = Vec::new();
        self.at += 1;
        if self.take(b']') {
            return Ok(Json::List(list));
        }
        loop {
            list.push(self.value(depth + 1)?);
            match () {
                () if self.take(b',') => {}
                () if self.take(b']') => return Ok(Json::List(list)),
                () => return Err(self.expected("`,` or `]`")),
            }
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        self.take_here(b"-");
        let whole = self.digits();
        let leading_zero = whole > 1 && self.text.as_bytes()[self.at - whole] == b'0';
        let fraction = !self.take_here(b".") || self.digits() > 0;
        let exponent = !self.take_here(b"eE") || {
            self.take_here(b"+-");
            self.digits() > 0
        };
        if whole == 0 || leading_zero || !fraction || !exponent {
            self.at = start;
            return Err(self.expected("a number"));
        }
        Ok(Json::Number(self.text[start..self.at].to_owned()))
    }

    fn text(&mut self) -> Result<String, String> {
        let mut text = String::new();
        self.at += 1;
        loop {
            let start = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            text.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err(self.expected("`\"`")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 1;
        let escaped = self.peek();
        self.at += 1;
        Ok(match escaped {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.code_point(),
            _ => {
                self.at -= 1;
                return Err(self.expected("an escape"));
            }
        })
    }

    /// What follows `\u`; beyond the first plane, two of them make one character.
    fn code_point(&mut self) -> Result<char, String> {
        let mut code = self.hex()?;
        if (0xd800..0xdc00).contains(&code) && self.take_word("\\u") {
            // An unpaired half stays what it is, and is no character.
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
            }
        }
        char::from_u32(code).ok_or_else(|| self.expected("a character"))
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.expected("four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn take(&mut self, wanted: u8) -> bool {
        self.skip_space();
        self.take_here(&[wanted])
    }

    fn take_here(&mut self, wanted: &[u8]) -> bool {
        let found = self.peek().is_some_and(|next| wanted.contains(&next));
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expected(&self, what: &str) -> String {
        format!("not JSON: expected {what} {}", self.place())
    }

    fn place(&self) -> String {
        let before = &self.text.as_bytes()[..self.at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        format!("at line {line}, column {column}")
    }
}
