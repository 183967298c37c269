//! Exports a `restart` that is not the contract's, under the contract's name and version.
#![allow(missing_docs, unsafe_code, clippy::all)]

#[cfg(target_arch = "wasm32")]
mod component {
    wit_bindgen::generate!({ path: "wit/wrong-type" });

    use exports::polylet::policy::{about, restart};

    struct WrongType;

    impl about::Guest for WrongType {
        fn describe() -> about::Description {
            let name = "hostile-wrong-type".to_owned();
            let summary = "Exports restart with another signature.".to_owned();
            about::Description { name, version: "0.1.0".to_owned(), summary, config_schema: None }
        }

        fn validate(_: String) -> Result<(), String> {
            Ok(())
        }
    }

    impl restart::Guest for WrongType {
        fn decide(question: String) -> u32 {
            question.len() as u32
        }
    }

    export!(WrongType);
}
