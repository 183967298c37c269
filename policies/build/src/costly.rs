//! A component that is small to ship, and costly to compile.

use wasm_encoder::{BlockType, CodeSection, Function, FunctionSection, Instruction, Module, TypeSection, ValType};

/// Variables that are live everywhere, and places that jump back with all of them: their product is what a compiler holds.
const LOCALS: u32 = 2_000;
const JUMPS: u32 = 20_000;

/// Adds a module that nobody instantiates to a component; compiling the component compiles it as well.
pub(crate) fn extend(mut component: Vec<u8>) -> Vec<u8> {
    const CORE_MODULE: u8 = 1;
    let module = module();
    component.push(CORE_MODULE);
    component.extend(leb128(module.len()));
    component.extend(module);
    component
}

fn module() -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([ValType::I64], [ValType::I64]);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut code = CodeSection::new();
    code.function(&function());
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&code);
    module.finish()
}

/// A loop that changes one variable after another, and after each change may start again.
fn function() -> Function {
    let mut function = Function::new([(LOCALS, ValType::I64)]);
    function.instruction(&Instruction::Loop(BlockType::Empty));
    for jump in 0..JUMPS {
        let changed = 1 + jump % LOCALS;
        let read = 1 + (jump.wrapping_mul(7919) + 13) % LOCALS;
        function
            .instruction(&Instruction::LocalGet(changed))
            .instruction(&Instruction::LocalGet(read))
            .instruction(&Instruction::I64Add)
            .instruction(&Instruction::LocalTee(changed))
            .instruction(&Instruction::LocalGet(0))
            .instruction(&Instruction::I64LtU)
            .instruction(&Instruction::BrIf(0));
    }
    function.instruction(&Instruction::End).instruction(&Instruction::LocalGet(LOCALS)).instruction(&Instruction::End);
    function
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
