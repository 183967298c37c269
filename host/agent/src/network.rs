//! Why the network is not ready: the runtime says only that it is not, the CNI configuration shows more.

use std::path::PathBuf;

use polylet_machine::network::configuration;
use polylet_runtime::Client;
use serde_json::Value;

use crate::perform::chain;

/// What the directory of CNI configurations shows, where the runtime tells which one it reads.
pub async fn why_not_ready(client: &Client) -> Option<String> {
    let status = client.status(true).await.ok()?;
    let config: Value = serde_json::from_str(status.info.get("config")?).ok()?;
    let dir = PathBuf::from(config.pointer("/cni/confDir")?.as_str()?);
    tokio::task::spawn_blocking(move || match configuration(&dir) {
        Ok(network) => {
            format!("{} declares the network {:?}, and the runtime has not taken it", network.file.display(), network.name)
        }
        Err(error) => chain(&error),
    })
    .await
    .ok()
}
