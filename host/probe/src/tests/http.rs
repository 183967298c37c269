//! HTTP probes.

use super::*;

fn http(status: u16, body_start: &str) -> Outcome {
    Outcome::Http { status, retry_after: None, redirected_off_host: false, body_start: body_start.into() }
}

#[tokio::test]
async fn the_request_is_upstreams() {
    let (port, heads) = answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let attempt = probe(&http_get(port, "/healthz?full=1"), &here(), AMPLE).await;
    assert_eq!((attempt.outcome, attempt.text.as_str()), (http(200, "ok"), ""));
    let mut lines: Vec<String> = heads.lock().expect("lock")[0].trim_end().lines().map(str::to_owned).collect();
    assert_eq!(lines.remove(0), "GET /healthz?full=1 HTTP/1.1");
    lines.sort();
    let host = format!("Host: 127.0.0.1:{port}");
    assert_eq!(lines, ["Accept: */*", "Connection: close", &host, "User-Agent: kube-probe/1.36"]);
}

#[tokio::test]
async fn headers_of_the_spec() {
    let (port, heads) = answer("HTTP/1.1 200 OK\r\n\r\n").await;
    let headers = [("Host", "web.example"), ("accept", ""), ("User-Agent", "mine"), ("X-A", "1"), ("X-A", "2")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let handler = Handler::HttpGet { host: None, port, path: "/".into(), tls: false, headers };
    probe(&handler, &here(), AMPLE).await;
    let head = heads.lock().expect("lock")[0].to_lowercase();
    for line in ["host: web.example", "user-agent: mine", "x-a: 1", "x-a: 2"] {
        assert!(head.contains(&format!("{line}\r\n")), "{line}: {head}");
    }
    assert!(!head.contains("accept"), "{head}");
}

#[tokio::test]
async fn statuses() {
    for (status, text) in [
        (200, ""),
        (204, ""),
        (299, ""),
        (304, "Probe terminated redirects, Response body: "),
        (302, "Probe terminated redirects, Response body: body"),
        (400, "HTTP probe failed with statuscode: 400"),
        (503, "HTTP probe failed with statuscode: 503"),
    ] {
        let body = if matches!(status, 204 | 304) { "" } else { "body" };
        let (port, _) = answer(format!("HTTP/1.1 {status} Word\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await;
        let attempt = probe(&http_get(port, "/"), &here(), AMPLE).await;
        assert_eq!((attempt.outcome, attempt.text.as_str()), (http(status, body), text), "{status}");
    }
}

#[tokio::test]
async fn retry_after_in_both_forms() {
    for (header, expected) in [
        ("Retry-After: 7", Some(7000)),
        ("Date: Sun, 29 Nov 2026 19:00:00 GMT\r\nRetry-After: Sun, 29 Nov 2026 19:01:30 GMT", Some(90_000)),
        ("Date: Sun, 29 Nov 2026 19:00:00 GMT\r\nRetry-After: Sun, 29 Nov 2026 18:00:00 GMT", Some(0)),
        ("Retry-After: soon", None),
    ] {
        let (port, _) = answer(format!("HTTP/1.1 503 Busy\r\n{header}\r\nContent-Length: 0\r\n\r\n")).await;
        match probe(&http_get(port, "/"), &here(), AMPLE).await.outcome {
            Outcome::Http { retry_after, .. } => assert_eq!(retry_after, expected, "{header}"),
            other => panic!("{header}: {other:?}"),
        }
    }
}

/// Answers by path.
async fn redirector() -> (u16, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let port = serve(move |mut stream| {
        let seen = Arc::clone(&seen);
        async move {
            let head = head(&mut stream).await?;
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let port = stream.local_addr()?.port();
            seen.lock().expect("lock").push(head);
            let location = match path.as_str() {
                "/relative" => "ok?x=1".to_owned(),
                "/absolute" => format!("http://127.0.0.1:{port}/ok"),
                "/away" => "http://localhost:1/ok".to_owned(),
                "/loop" => "/loop".to_owned(),
                "/bad" => "ftp://127.0.0.1/".to_owned(),
                _ => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?;
                    return stream.shutdown().await;
                }
            };
            let text = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 5\r\n\r\nmoved");
            stream.write_all(text.as_bytes()).await?;
            stream.shutdown().await
        }
    })
    .await;
    (port, heads)
}

#[tokio::test]
async fn redirects_stay_on_the_host() {
    let (port, heads) = redirector().await;
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    for path in ["/relative", "/absolute"] {
        assert_eq!(probe(&http_get(port, path), &here(), AMPLE).await.outcome, http(200, "ok"), "{path}");
    }
    assert!(heads.lock().expect("lock")[1].starts_with("GET /ok?x=1 HTTP/1.1\r\n"));

    let attempt = probe(&http_get(port, "/away"), &here(), AMPLE).await;
    let away = Outcome::Http { status: 302, retry_after: None, redirected_off_host: true, body_start: "moved".into() };
    assert_eq!((attempt.outcome, attempt.text.as_str()), (away, "Probe terminated redirects, Response body: moved"));

    heads.lock().expect("lock").clear();
    let attempt = probe(&http_get(port, "/loop"), &here(), AMPLE).await;
    let text = format!("Get \"{}\": stopped after 10 redirects", url("/loop"));
    assert_eq!((attempt.outcome, attempt.text), (failed(Failure::Protocol), text));
    assert_eq!(heads.lock().expect("lock").len(), 10);

    let attempt = probe(&http_get(port, "/bad"), &here(), AMPLE).await;
    let why = "failed to parse Location header \"ftp://127.0.0.1/\": unsupported protocol scheme \"ftp\"";
    assert_eq!((attempt.outcome, attempt.text), (failed(Failure::Protocol), format!("Get \"{}\": {why}", url("/bad"))));
}

#[tokio::test]
async fn a_host_header_is_kept_over_relative_redirects_only() {
    let (port, heads) = redirector().await;
    for (path, expected) in [("/relative", "web.example".to_owned()), ("/absolute", format!("127.0.0.1:{port}"))] {
        heads.lock().expect("lock").clear();
        let headers = vec![("Host".to_owned(), "web.example".to_owned())];
        let handler = Handler::HttpGet { host: None, port, path: path.into(), tls: false, headers };
        probe(&handler, &here(), AMPLE).await;
        let heads = heads.lock().expect("lock");
        assert!(heads[0].contains("Host: web.example\r\n"), "{heads:?}");
        assert!(heads[1].contains(&format!("Host: {expected}\r\n")), "{heads:?}");
        assert!(heads[1].contains(&format!("Referer: http://127.0.0.1:{port}{path}\r\n")), "{heads:?}");
    }
}

#[tokio::test]
async fn of_a_body_only_the_start_is_read() {
    let port = serve(|mut stream| async move {
        head(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 302 Found\r\n\r\n").await?;
        loop {
            stream.write_all(&[b'x'; 8192]).await?;
        }
    })
    .await;
    let attempt = probe(&http_get(port, "/"), &here(), AMPLE).await;
    assert_eq!(attempt.outcome, http(302, &"x".repeat(1024)));
    assert_eq!(attempt.text, format!("Probe terminated redirects, Response body: {}", "x".repeat(10 << 10)));
}

#[tokio::test]
async fn bodies_that_are_no_text() {
    let mut reply = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    reply.extend([0xff; 2000]);
    let (port, _) = answer(reply).await;
    match probe(&http_get(port, "/"), &here(), AMPLE).await.outcome {
        Outcome::Http { body_start, .. } => assert!(body_start.len() <= 1024 && body_start.starts_with('\u{fffd}')),
        other => panic!("{other:?}"),
    }
}

/// Upstream learns nothing from an answer that it cannot read to the end.
#[tokio::test]
async fn a_body_that_is_cut_off_or_trickles_is_our_failure_to_read() {
    let (port, _) = answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort").await;
    let attempt = probe(&http_get(port, "/"), &here(), AMPLE).await;
    assert_eq!((attempt.outcome, attempt.text.as_str()), (failed(Failure::Internal), "unexpected EOF"));

    let port = serve(|mut stream| async move {
        head(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        loop {
            stream.write_all(b"x").await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let attempt = probe(&http_get(port, "/"), &here(), SHORT).await;
    let text = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    assert_eq!((attempt.outcome, attempt.text.as_str()), (failed(Failure::Internal), text));
    assert!(attempt.latency < AMPLE);
}

#[tokio::test]
async fn no_answer_in_time() {
    let silent = serve(|stream| async move {
        tokio::time::sleep(AMPLE).await;
        drop(stream);
        Ok(())
    })
    .await;
    let slow_head = serve(|mut stream| async move {
        for byte in b"HTTP/1.1 200 OK\r\nX: ".iter().chain(std::iter::repeat(&b'x')) {
            stream.write_all(&[*byte]).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    })
    .await;
    let never_final = serve(|mut stream| async move {
        loop {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    for port in [silent, slow_head, never_final] {
        let attempt = probe(&http_get(port, "/x"), &here(), SHORT).await;
        let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        assert_eq!(attempt.text, format!("Get \"http://127.0.0.1:{port}/x\": {why}"));
        assert_eq!(attempt.outcome, failed(Failure::Timeout));
        assert!(attempt.latency < AMPLE);
    }
}

#[tokio::test]
async fn connections_that_end_early() {
    let closed = serve(|mut stream| async move {
        head(&mut stream).await?;
        Ok(())
    })
    .await;
    let attempt = probe(&http_get(closed, "/"), &here(), AMPLE).await;
    assert_eq!((attempt.outcome, attempt.text), (failed(Failure::Reset), format!("Get \"http://127.0.0.1:{closed}/\": EOF")));

    let reset = serve(|mut stream| async move {
        head(&mut stream).await?;
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(())
    })
    .await;
    let attempt = probe(&http_get(reset, "/"), &here(), AMPLE).await;
    let text = format!("Get \"http://127.0.0.1:{reset}/\": read: connection reset by peer");
    assert_eq!((attempt.outcome, attempt.text), (failed(Failure::Reset), text));
}

#[tokio::test]
async fn answers_that_are_none() {
    let many: String = (0..5000).map(|i| format!("X-{i}: y\r\n")).collect();
    for reply in [
        "SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(),
        "\r\n\r\n\0\0garbage".to_owned(),
        format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(2 << 20)),
        format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_owned(),
        "HTTP/9.9 200 OK\r\n\r\n".to_owned(),
    ] {
        let shown: String = reply.chars().take(40).collect();
        let (port, _) = answer(reply).await;
        let attempt = probe(&http_get(port, "/"), &here(), AMPLE).await;
        assert_eq!(attempt.outcome, failed(Failure::Protocol), "{shown:?}: {}", attempt.text);
        assert!(attempt.text.starts_with(&format!("Get \"http://127.0.0.1:{port}/\": net/http: ")), "{}", attempt.text);
    }
}
