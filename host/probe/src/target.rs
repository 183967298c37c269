//! Where a request goes: a URL in parts, as upstream's libraries would build and resolve it.

use std::fmt;

/// An `http` or `https` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) tls: bool,
    /// Name or address, an IPv6 one without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as they were written: the `Host` header.
    pub(crate) authority: String,
    /// Starts with a slash; only characters that may stand in a request line.
    pub(crate) path_and_query: String,
}

impl Target {
    /// From a handler's fields. The path may hold a query; what cannot be sent as it is, is escaped.
    pub(crate) fn new(tls: bool, host: &str, port: u16, path: &str) -> Self {
        let path = path.split('#').next().unwrap_or_default();
        // A URL in the path's place counts for its path only.
        let path = match split_scheme(path) {
            (Some(_), rest) => rest,
            (None, _) => path,
        };
        let path = match path.strip_prefix("//") {
            Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
            None => path,
        };
        let mut path = if has_bad_escape(path) { escape(path, true) } else { escape(path, false) };
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
        Self { tls, host: host.to_owned(), port, authority: join_host_port(host, port), path_and_query: path }
    }

    /// Where a `Location` seen here leads; the error says what is wrong with it.
    pub(crate) fn resolve(&self, location: &str) -> Result<Self, String> {
        if location.chars().any(|c| c.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let reference = location.split('#').next().unwrap_or_default();
        let (scheme, rest) = split_scheme(reference);
        let tls = match scheme.as_deref() {
            None => self.tls,
            Some("http") => false,
            Some("https") => true,
            Some(other) => return Err(format!("unsupported protocol scheme \"{other}\"")),
        };
        if let Some(rest) = rest.strip_prefix("//") {
            let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            // Credentials in a URL are not carried over.
            let authority = authority.rsplit('@').next().unwrap_or_default();
            let (host, port) = split_authority(authority, tls)?;
            let authority = authority.to_owned();
            return Ok(Self { tls, host, port, authority, path_and_query: normal(path) });
        }
        if scheme.is_some() {
            return Err("http: no Host in request URL".to_owned());
        }
        let base = self.path_and_query.split('?').next().unwrap_or_default();
        let path = match rest.chars().next() {
            None => self.path_and_query.clone(),
            Some('/') => rest.to_owned(),
            Some('?') => format!("{base}{rest}"),
            Some(_) => format!("{}{rest}", &base[..=base.rfind('/').unwrap_or(0)]),
        };
        Ok(Self { tls, path_and_query: normal(&path), ..self.clone() })
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority, self.path_and_query)
    }
}

/// `host:port`, with brackets around an IPv6 address.
pub(crate) fn join_host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Whether a reference names its scheme.
pub(crate) fn is_absolute(reference: &str) -> bool {
    split_scheme(reference).0.is_some()
}

/// A scheme in lower case, and what follows its colon.
fn split_scheme(reference: &str) -> (Option<String>, &str) {
    let end = reference.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    match end {
        Some(end) if reference[end..].starts_with(':') && reference.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (Some(reference[..end].to_ascii_lowercase()), &reference[end + 1..])
        }
        _ => (None, reference),
    }
}

fn split_authority(authority: &str, tls: bool) -> Result<(String, u16), String> {
    let invalid = || format!("invalid host or port in \"{authority}\"");
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(invalid)?;
            (host, if rest.is_empty() { "" } else { rest.strip_prefix(':').ok_or_else(invalid)? })
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    if host.is_empty() {
        return Err("http: no Host in request URL".to_owned());
    }
    if host.contains(|c: char| !(c.is_ascii_alphanumeric() || "-._~:%".contains(c))) {
        return Err(invalid());
    }
    let port = match port {
        "" if tls => 443,
        "" => 80,
        port => port.parse().map_err(|_| invalid())?,
    };
    Ok((host.to_owned(), port))
}

/// Escaped, with a slash in front and without `.` and `..` segments.
fn normal(path_and_query: &str) -> String {
    let text = escape(path_and_query, has_bad_escape(path_and_query));
    let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    segments.pop();
                }
                if last {
                    segments.push("");
                }
            }
            part => segments.push(part),
        }
    }
    format!("/{}{query}", segments.join("/"))
}

/// A percent sign that does not begin an escape.
fn has_bad_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    (0..bytes.len()).any(|at| bytes[at] == b'%' && !(hex(at + 1) && hex(at + 2)))
}

/// Escapes what may not stand in a request line; with `literal` also what would begin an escape or a query.
fn escape(text: &str, literal: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        let allowed = match byte {
            b'%' | b'?' => !literal,
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#' => false,
            byte => byte.is_ascii_graphic(),
        };
        if allowed {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_fields_become_urls() {
        for (host, path, url) in [
            ("10.0.0.7", "/healthz?full=1#x", "http://10.0.0.7:80/healthz?full=1"),
            ("10.0.0.7", "healthz", "http://10.0.0.7:80/healthz"),
            ("10.0.0.7", "", "http://10.0.0.7:80/"),
            ("fd00::7", "/a b/ü", "http://[fd00::7]:80/a%20b/%C3%BC"),
            ("web", "/100%", "http://web:80/100%25"),
            ("web", "/a%20b", "http://web:80/a%20b"),
            ("web", "http://evil.example/x", "http://web:80/x"),
            ("web", "//evil.example/x", "http://web:80/x"),
            ("web", "/a\r\nHost: evil", "http://web:80/a%0D%0AHost:%20evil"),
        ] {
            assert_eq!(Target::new(false, host, 80, path).to_string(), url, "{host} {path}");
        }
    }

    #[test]
    fn locations_are_resolved() {
        let base = Target::new(false, "10.0.0.7", 8080, "/a/b?q=1");
        for (location, url) in [
            ("/x", "http://10.0.0.7:8080/x"),
            ("x?y", "http://10.0.0.7:8080/a/x?y"),
            ("../x", "http://10.0.0.7:8080/x"),
            ("../../../x/./y/..", "http://10.0.0.7:8080/x/"),
            ("?z", "http://10.0.0.7:8080/a/b?z"),
            ("", "http://10.0.0.7:8080/a/b?q=1"),
            ("//other/x", "http://other/x"),
            ("https://10.0.0.7/y#frag", "https://10.0.0.7/y"),
            ("HTTP://user:word@10.0.0.7:81", "http://10.0.0.7:81/"),
            ("http://[::1]:81/", "http://[::1]:81/"),
        ] {
            assert_eq!(base.resolve(location).map(|target| target.to_string()), Ok(url.to_owned()), "{location}");
        }
        let https = base.resolve("https://10.0.0.7/").expect("resolve");
        assert_eq!((https.tls, https.port, https.host.as_str()), (true, 443, "10.0.0.7"));
        for (location, error) in [
            ("ftp://10.0.0.7/", "unsupported protocol scheme \"ftp\""),
            ("http:///x", "http: no Host in request URL"),
            ("http:x", "http: no Host in request URL"),
            ("http://a:99999/", "invalid host or port in \"a:99999\""),
            ("http://[::1/", "invalid host or port in \"[::1\""),
            ("http://a b/", "invalid host or port in \"a b\""),
            ("/a\nb", "net/url: invalid control character in URL"),
        ] {
            assert_eq!(base.resolve(location), Err(error.to_owned()), "{location}");
        }
    }
}
