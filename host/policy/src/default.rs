//! The default component, embedded in the binary.

/// The component that answers where nothing is bound. None in a program that was built before there were policies to build.
pub fn default_component() -> Option<&'static [u8]> {
    EMBEDDED
}

#[cfg(default_component)]
const EMBEDDED: Option<&[u8]> = Some(include_bytes!(concat!(env!("POLYLET_POLICIES_DIR"), "/default.wasm")));
#[cfg(not(default_component))]
const EMBEDDED: Option<&[u8]> = None;
