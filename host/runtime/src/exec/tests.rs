//! A runtime's stream, played: what is sent to it, and what is made of what it sends.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[test]
fn a_stream_goes_to_this_machine_or_nowhere() {
    let good = ["http://127.0.0.1:4321/exec/abc", "http://[::1]:4321/exec/abc", "http://localhost:4321/exec/abc"];
    for url in good {
        let (address, uri) = place(url).unwrap();
        assert!(address.ip().is_loopback() && address.port() == 4321, "{url}: {address}");
        assert_eq!(uri.path(), "/exec/abc");
    }
    for (url, why) in [
        ("http://192.0.2.7:4321/exec/abc", "its address is not one of this machine"),
        ("http://[2001:db8::7]:4321/exec/abc", "its address is not one of this machine"),
        ("http://example.com:4321/exec/abc", "its host is no address"),
        ("https://127.0.0.1:4321/exec/abc", "only http:// is spoken"),
        ("/exec/abc", "only http:// is spoken"),
        ("http://:80/", ""),
        ("", ""),
    ] {
        let error = place(url).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("the runtime wants its stream at"), "{url}: {error}");
    }
}

#[test]
fn how_a_command_ended() {
    let check = |status: &str, expected: Option<Result<i32, String>>| assert_eq!(parse(status.as_bytes()), expected, "{status}");
    check(r#"{"metadata":{},"status":"Success"}"#, Some(Ok(0)));
    let failed = |details: &str| {
        format!(r#"{{"metadata":{{}},"status":"Failure","message":"it failed","reason":"NonZeroExitCode"{details}}}"#)
    };
    check(&failed(r#","details":{"causes":[{"reason":"ExitCode","message":"3"}]}"#), Some(Ok(3)));
    check(&failed(r#","details":{"causes":[{"reason":"ExitCode","message":"x"}]}"#), Some(Err("it failed".to_owned())));
    check(&failed(""), Some(Err("it failed".to_owned())));
    check(r#"{"status":"Failure","message":"no such file","reason":"InternalError"}"#, Some(Err("no such file".to_owned())));
    check(r#"{"status":"Failure","reason":"InternalError"}"#, Some(Err("InternalError".to_owned())));
    check(r#"{"status":"Failure","mess"#, None);
    check("plain words", None);
    check("", None);
}

/// The far end of a relay.
struct Runtime {
    stream: tokio::io::DuplexStream,
    input: Option<mpsc::Sender<ToCommand>>,
    output: mpsc::Receiver<FromCommand>,
}

impl Runtime {
    fn new(stdin: bool, tty: bool) -> Self {
        let (ours, stream) = tokio::io::duplex(1 << 20);
        let (input, to) = mpsc::channel(QUEUE);
        let (from, output) = mpsc::channel(QUEUE);
        tokio::spawn(relay(ours, stdin, tty, to, from));
        Self { stream, input: Some(input), output }
    }

    async fn send(&self, message: ToCommand) {
        self.input.as_ref().unwrap().send(message).await.unwrap();
    }

    /// One frame: its first word, flags, payload.
    async fn frame(&mut self) -> (u32, u8, Vec<u8>) {
        let mut head = [0; 8];
        self.stream.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize];
        self.stream.read_exact(&mut payload).await.unwrap();
        (u32::from_be_bytes([head[0], head[1], head[2], head[3]]), head[4], payload)
    }

    async fn opened(&mut self, count: usize) -> Vec<String> {
        let mut kinds = Vec::new();
        for number in 0..count {
            let (word, _, payload) = self.frame().await;
            assert_eq!(word, 0x8003_0001);
            // The text stands in the zlib stream as it is.
            let text = String::from_utf8_lossy(&payload).into_owned();
            let kind = ["error", "stdin", "stdout", "stderr", "resize"].into_iter().find(|kind| text.contains(kind)).unwrap();
            assert!(text.contains("streamtype"), "{text:?}");
            assert_eq!(payload[10..12] == [0x78, 0x01], number == 0, "the stream of zlib begins once");
            assert_eq!(payload[payload.len() - 5..], [0, 0, 0, 0xff, 0xff]);
            kinds.push(format!("{} {kind}", u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]])));
        }
        kinds
    }

    async fn say(&mut self, stream: u32, flags: u8, bytes: &[u8]) {
        let [_, high, middle, low] = (bytes.len() as u32).to_be_bytes();
        self.stream.write_all(&stream.to_be_bytes()).await.unwrap();
        self.stream.write_all(&[flags, high, middle, low]).await.unwrap();
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn all(&mut self) -> (String, String, Option<Result<i32, String>>) {
        let (mut out, mut err, mut ended) = (Vec::new(), Vec::new(), None);
        while let Some(message) = self.output.recv().await {
            match message {
                FromCommand::Stdout(bytes) => out.extend(bytes),
                FromCommand::Stderr(bytes) => err.extend(bytes),
                FromCommand::Ended(how) => ended = Some(how),
            }
        }
        (String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned(), ended)
    }
}

const SUCCESS: &[u8] = br#"{"metadata":{},"status":"Success"}"#;

#[tokio::test]
async fn input_goes_out_and_ends() {
    let mut runtime = Runtime::new(true, false);
    assert_eq!(runtime.opened(4).await, ["1 error", "3 stdin", "5 stdout", "7 stderr"]);
    runtime.send(ToCommand::Stdin(b"hello".to_vec())).await;
    assert_eq!(runtime.frame().await, (3, 0, b"hello".to_vec()));
    runtime.send(ToCommand::Stdin(vec![b'x'; spdy::PIECE + 1])).await;
    assert_eq!(runtime.frame().await.2.len(), spdy::PIECE);
    assert_eq!(runtime.frame().await.2.len(), 1);
    // A ping of the runtime is answered between two messages.
    runtime.say(0x8003_0006, 0, &4u32.to_be_bytes()).await;
    assert_eq!(runtime.frame().await, (0x8003_0006, 0, 4u32.to_be_bytes().to_vec()));
    runtime.input = None;
    assert_eq!(runtime.frame().await, (3, 1, Vec::new()));
    runtime.say(5, 0, b"bye").await;
    runtime.say(5, 1, b"").await;
    runtime.say(1, 0, SUCCESS).await;
    assert_eq!(runtime.all().await, ("bye".to_owned(), String::new(), Some(Ok(0))));
}

#[tokio::test]
async fn a_terminal_has_a_size_and_no_standard_error() {
    let mut runtime = Runtime::new(false, true);
    assert_eq!(runtime.opened(3).await, ["1 error", "5 stdout", "9 resize"]);
    runtime.send(ToCommand::Stdin(b"not wanted".to_vec())).await;
    runtime.send(ToCommand::Resize { width: 80, height: 24 }).await;
    assert_eq!(runtime.frame().await, (9, 0, b"{\"Width\":80,\"Height\":24}\n".to_vec()));
}

#[tokio::test]
async fn whatever_the_runtime_sends_is_borne() {
    let status = br#"{"status":"Failure","message":"m","reason":"InternalError"}"#;
    // A long frame, both streams, a header that is not wanted, streams that nobody opened, then the end.
    let mut runtime = Runtime::new(false, false);
    runtime.say(0x8003_0002, 0, &[7; 4000]).await;
    runtime.say(5, 0, &vec![b'o'; 100_000]).await;
    runtime.say(7, 0, b"err").await;
    runtime.say(99, 0, b"nobody's").await;
    runtime.say(1, 0, &status[..20]).await;
    runtime.say(1, 0, &status[20..]).await;
    runtime.say(0x8003_0003, 0, &[0, 0, 0, 5, 0, 0, 0, 1]).await;
    runtime.say(0x8003_0003, 0, &[0, 0, 0, 1, 0, 0, 0, 1]).await;
    let (out, err, ended) = runtime.all().await;
    assert_eq!((out.len(), err.as_str(), ended), (100_000, "err", Some(Err("m".to_owned()))));

    // It goes away without a word, in the middle of a frame, with words that are no status, or speaks something else.
    let mut runtime = Runtime::new(false, false);
    runtime.say(0x8003_0007, 0, &[0; 8]).await;
    let ended = runtime.all().await.2;
    assert_eq!(ended, Some(Err("the runtime closed the stream without saying how the command ended".to_owned())));
    for (bytes, expected) in [
        (&[0, 0, 0, 5, 0, 0, 0, 9, b'x'][..], "the runtime's stream broke: "),
        (&[0x80, 2, 0, 1, 0, 0, 0, 0], "the runtime's stream broke: not a frame of SPDY/3.1"),
        (&[0, 0, 0, 1, 1, 0, 0, 5, b'w', b'o', b'r', b'd', b's'], "words"),
    ] {
        let mut runtime = Runtime::new(false, false);
        runtime.stream.write_all(bytes).await.unwrap();
        runtime.stream.shutdown().await.unwrap();
        let Some(Err(said)) = runtime.all().await.2 else { panic!("{bytes:?}: no error") };
        assert!(said.starts_with(expected), "{said}");
    }
}

#[tokio::test]
async fn a_status_without_bounds_is_cut() {
    let mut runtime = Runtime::new(false, false);
    for _ in 0..8 {
        runtime.say(1, 0, &[b'x'; 60_000]).await;
    }
    runtime.say(1, 1, b"").await;
    let Some(Err(said)) = runtime.all().await.2 else { panic!("no error") };
    assert_eq!(said.len(), STATUS_MAX);
}

#[tokio::test]
async fn a_connection_ends_when_nobody_listens() {
    let mut runtime = Runtime::new(true, false);
    runtime.opened(4).await;
    let (_, closed) = mpsc::channel(1);
    runtime.output = closed;
    let mut rest = Vec::new();
    runtime.stream.read_to_end(&mut rest).await.unwrap();
}
