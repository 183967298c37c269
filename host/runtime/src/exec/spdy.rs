//! As much of SPDY/3.1 as a client of a runtime's streams needs: it opens streams, and closes its half of each.
//!
//! What is left out is what that peer does without: priorities, flow control (neither side of upstream's library counts), settings, and the
//! compression of headers. The format wants a zlib stream there, which may hold its text as it is.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

/// The most of one frame that is handed on, or sent, at once.
pub(super) const PIECE: usize = 32 << 10;

const VERSION: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FIN: u8 = 1;

/// What the peer sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Bytes of a stream, or a piece of a longer frame; `last`: the peer closes its half.
    Data { stream: u32, bytes: Vec<u8>, last: bool },
    /// A stream is gone.
    Reset { stream: u32 },
    /// To be sent back.
    Ping { id: u32 },
    /// Nothing more comes.
    GoAway,
    /// Nothing that matters here.
    Other,
}

/// Reads frames.
#[derive(Debug)]
pub(super) struct Reader<R> {
    from: BufReader<R>,
    /// What has not been read of a frame of data: stream, bytes, whether it is its last.
    rest: Option<(u32, usize, bool)>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from: BufReader::with_capacity(PIECE, from), rest: None }
    }

    /// The next frame; None where the connection ends between two of them. Not cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<Frame>> {
        if let Some((stream, length, last)) = self.rest.take() {
            return self.piece(stream, length, last).await.map(Some);
        }
        let mut head = [0; 8];
        match self.from.read(&mut head[..1]).await {
            Ok(0) => return Ok(None),
            other => other?,
        };
        self.from.read_exact(&mut head[1..]).await?;
        let [a, b, c, d, flags, high, middle, low] = head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        if a & 0x80 == 0 {
            return self.piece(u32::from_be_bytes([a, b, c, d]), length, flags & FIN != 0).await.map(Some);
        }
        if u16::from_be_bytes([a, b]) != VERSION {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a frame of SPDY/3.1"));
        }
        let mut word = [0; 4];
        let known = length.min(word.len());
        self.from.read_exact(&mut word[..known]).await?;
        // Of headers nothing is wanted; they may be long.
        let rest = (length - known) as u64;
        let skipped = tokio::io::copy(&mut (&mut self.from).take(rest), &mut tokio::io::sink()).await?;
        if skipped < rest {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let word = u32::from_be_bytes(word);
        Ok(Some(match u16::from_be_bytes([c, d]) {
            RST_STREAM => Frame::Reset { stream: word & 0x7fff_ffff },
            PING => Frame::Ping { id: word },
            GOAWAY => Frame::GoAway,
            _ => Frame::Other,
        }))
    }

    async fn piece(&mut self, stream: u32, length: usize, last: bool) -> io::Result<Frame> {
        let mut bytes = vec![0; length.min(PIECE)];
        self.from.read_exact(&mut bytes).await?;
        let left = length - bytes.len();
        if left > 0 {
            self.rest = Some((stream, left, last));
        }
        Ok(Frame::Data { stream, bytes, last: last && left == 0 })
    }
}

/// Writes frames.
#[derive(Debug)]
pub(super) struct Writer<W> {
    to: W,
    /// The zlib stream of headers has begun.
    begun: bool,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, begun: false }
    }

    /// Opens a stream: what it is for stands in its only header.
    pub(super) async fn open(&mut self, stream: u32, kind: &str) -> io::Result<()> {
        let mut block = Vec::new();
        block.extend_from_slice(&1u32.to_be_bytes());
        for text in ["streamtype", kind] {
            block.extend_from_slice(&(text.len() as u32).to_be_bytes());
            block.extend_from_slice(text.as_bytes());
        }
        let mut payload = Vec::new();
        payload.extend_from_slice(&stream.to_be_bytes());
        // No stream that it belongs to, the highest priority, no slot.
        payload.extend_from_slice(&[0; 6]);
        if !std::mem::replace(&mut self.begun, true) {
            payload.extend_from_slice(&[0x78, 0x01]);
        }
        // A block of zlib that holds its bytes as they are, and an empty one, at which a reader gives out what it has.
        for stored in [block.as_slice(), &[]] {
            let length = stored.len() as u16;
            payload.push(0);
            payload.extend_from_slice(&length.to_le_bytes());
            payload.extend_from_slice(&(!length).to_le_bytes());
            payload.extend_from_slice(stored);
        }
        self.control(SYN_STREAM, &payload).await
    }

    /// Sends bytes on a stream.
    pub(super) async fn data(&mut self, stream: u32, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            self.frame(stream.to_be_bytes(), 0, piece).await?;
        }
        Ok(())
    }

    /// Closes our half of a stream.
    pub(super) async fn end(&mut self, stream: u32) -> io::Result<()> {
        self.frame(stream.to_be_bytes(), FIN, &[]).await
    }

    /// Sends a ping back.
    pub(super) async fn ping(&mut self, id: u32) -> io::Result<()> {
        self.control(PING, &id.to_be_bytes()).await
    }

    async fn control(&mut self, kind: u16, payload: &[u8]) -> io::Result<()> {
        let [a, b] = VERSION.to_be_bytes();
        let [c, d] = kind.to_be_bytes();
        self.frame([a, b, c, d], 0, payload).await
    }

    async fn frame(&mut self, head: [u8; 4], flags: u8, payload: &[u8]) -> io::Result<()> {
        let [_, high, middle, low] = (payload.len() as u32).to_be_bytes();
        let mut frame = Vec::with_capacity(8 + payload.len());
        frame.extend_from_slice(&head);
        frame.extend_from_slice(&[flags, high, middle, low]);
        frame.extend_from_slice(payload);
        self.to.write_all(&frame).await?;
        self.to.flush().await
    }
}
