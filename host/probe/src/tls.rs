//! TLS to workloads: encrypted, and nobody's identity is verified, as upstream does it.

use std::sync::{Arc, LazyLock};

use polylet_core::question::probe::Failure;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::socket::Socket;
use crate::trouble::Trouble;

/// What a plain HTTP answer to a TLS handshake is called.
pub(crate) const PLAINTEXT: &str = "http: server gave HTTP response to HTTPS client";

/// Shakes hands. Offers HTTP/2 and HTTP/1.1.
pub(crate) async fn handshake(host: &str, socket: Socket) -> Result<TlsStream<Socket>, Trouble> {
    let config = match &*CONFIG {
        Ok(config) => Arc::clone(config),
        Err(error) => return Err(Trouble::new(Failure::Internal, format!("tls: {error}"))),
    };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| Trouble::new(Failure::NameResolution, format!("tls: {host}: {error}")))?;
    TlsConnector::from(config).connect(name, socket).into_fallible().await.map_err(|(error, socket)| {
        if socket.began_as_http() {
            return Trouble::new(Failure::Tls, PLAINTEXT);
        }
        match error.get_ref().and_then(|cause| cause.downcast_ref::<Error>()) {
            Some(cause) => Trouble::new(Failure::Tls, format!("tls: {cause}")),
            None => Trouble::of_io(&error),
        }
    })
}

static CONFIG: LazyLock<Result<Arc<ClientConfig>, Error>> = LazyLock::new(|| {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions()?;
    let mut config = builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate)).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
});

/// Takes every certificate and every signature: a probe asks whether a workload answers, not who it is. Signatures are not looked at
/// either, so that keys which this library cannot verify (short RSA, P-521) do not fail a healthy workload.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::ECDSA_SHA1_Legacy,
            SignatureScheme::RSA_PKCS1_SHA1,
        ]
    }
}
