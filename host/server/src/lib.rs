//! What others call: health, metrics, the administration socket.
