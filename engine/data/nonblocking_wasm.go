package data

// nonBlocking has no effect: WebAssembly has no pipes to wait for.
const nonBlocking = 0
