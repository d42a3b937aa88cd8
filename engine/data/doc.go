// Package data holds the examples that a network is trained on: tables in
// memory, sets composed of others, and readers for the files that people have
// (MNIST's IDX, CIFAR-10, folders of pictures, NumPy arrays, CSV, JSON lines,
// plain text), besides digits and remarks, which the program makes by itself.
//
// What it promises to privacy: an example's numbers depend on that example and
// on public constants alone. Nothing — no mean, no bound, no vocabulary, no
// list of classes — is learnt from the rows, for such a thing would carry one
// person's value into every other's example, unpaid. What a reader needs to
// know it is told by the user or takes from a published constant, or it says
// what to write and stops. The names of files, folders, columns and keys and the
// common size of pictures and arrays count as public. Error messages name files,
// lines and columns, never a value.
package data
