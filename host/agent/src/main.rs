//! The node agent `polylet`.

fn main() -> std::process::ExitCode {
    polylet_agent::cli::main()
}
