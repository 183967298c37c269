//! What `wit-bindgen` makes of the contract, each hook by itself, so that a component exports just those that its author names.
//! Authors see these types through the modules at the root of the crate.
#![allow(missing_docs, unreachable_pub, unsafe_code, clippy::all, clippy::pedantic)]

/// The imports and the types that all hooks share.
pub mod imports {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "polylet:policy/imports",
        additional_derives: [PartialEq],
        generate_unused_types: true,
        generate_all,
    });
}

pub use imports::polylet::policy::types;

macro_rules! exported {
    ($interface:ident, $world:literal, $export:literal $(, $with:tt)?) => {
        pub mod $interface {
            wit_bindgen::generate!({
                path: "../../wit",
                inline: $world,
                $(with: $with,)?
                additional_derives: [PartialEq],
                pub_export_macro: true,
                export_macro_name: $export,
            });
            pub use exports::polylet::policy::$interface::*;
        }
    };
}

macro_rules! hook {
    ($interface:ident, $world:literal, $export:literal) => {
        exported!($interface, $world, $export, { "polylet:policy/types@0.1.0": crate::bindings::types });
    };
}

exported!(about, "package polylet:sdk; world about { export polylet:policy/about@0.1.0; }", "export_about");
hook!(restart, "package polylet:sdk; world restart { export polylet:policy/restart@0.1.0; }", "export_restart");
hook!(probe, "package polylet:sdk; world probe { export polylet:policy/probe@0.1.0; }", "export_probe");
hook!(qos, "package polylet:sdk; world qos { export polylet:policy/qos@0.1.0; }", "export_qos");
hook!(eviction, "package polylet:sdk; world eviction { export polylet:policy/eviction@0.1.0; }", "export_eviction");
