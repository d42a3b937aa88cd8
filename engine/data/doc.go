// Package data provides the examples that a network is trained on: tables in memory, sets combined
// from others, and readers for common files (MNIST's IDX, CIFAR-10, folders of pictures, NumPy
// arrays, CSV, JSON lines, plain text). It also generates three public data sets, digits, shapes and
// remarks.
//
// # The idea
//
// A [Set] is a sequence of examples. Column k of an example is a vector of numbers, and it is the
// network's k-th input. The engine asks for rows by number, in the random order of a lot:
//
//	                Columns()[0]     Columns()[1]
//	row 0           28×28 pixels     label
//	row 1           28×28 pixels     label          Read(dst, rows=[7 2]) copies
//	…                                               row 7, row 2 to dst[0] and dst[1]
//	row Len()−1     28×28 pixels     label
//
// A set may know the user of each example ([UserSet]) and its weight in a weighted mean
// ([WeightSet]). A program can pass its own type; examples/users has one.
//
// # Privacy guarantee
//
// The numbers of an example depend only on that example and on public constants. No mean, bound,
// vocabulary or list of classes is computed from the rows, because such a value would carry one
// person's data into the examples of everybody else without being accounted. A reader takes the
// facts that it needs from the user or from a published constant. If a fact is missing, the reader
// returns an error that asks for it. The names of folders, columns and keys and the shape of arrays
// count as public. An example of the training data that cannot be read becomes blank, so that
// neither an error nor its message depends on it: see [BadRowPolicy]. Error messages name files,
// lines and columns, never a value.
//
// # Where each part lives
//
//   - set.go, column.go: what the engine reads. open.go: [Open] chooses a reader by the data set's name.
//   - table.go, subset.go, concat.go, blank.go: sets in memory, parts and unions of sets.
//   - schema.go, input_column.go, row_layout.go: what the user states about a table's columns; csv.go,
//     jsonl.go, line_files.go: its rows. schema_yaml.go, schema_check.go, skeleton.go: schema files.
//   - pictures.go, picture_folders.go, picture_decoder.go, mnist.go, cifar.go: pictures;
//     augmentation.go: random changes of them. arrays.go, npy.go: NumPy arrays.
//   - tokenizer.go, token_sequences.go: text. unlabeled.go: examples for prediction.
//   - synthetic_pictures.go, synthetic_remarks.go: the generated sets.
package data
