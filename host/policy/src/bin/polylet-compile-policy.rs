//! The agent's hidden subcommand alone: what tests and benchmarks start to compile a policy.

fn main() -> std::process::ExitCode {
    polylet_policy::compile_child_main()
}
