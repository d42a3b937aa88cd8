package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// A test file that equals the private file, or would equal it but for one cell, gives the same exit
// code and messages: otherwise each guess of a row could be checked.
func TestTestFile_ContentIsNotCompared(t *testing.T) {
	t.Chdir(t.TempDir())
	table(t, "t.csv", 20)
	private := readFile(t, "t.csv")
	first := bytes.IndexByte(private, '\n') + 1
	guess := bytes.Clone(private)
	guess[first] = '1' + (guess[first]-'0')%9 // another first digit of the first age
	const schema = " --label label --classes no,yes --bounds age=0:100 --vocabulary colour=red|blue --ignore owner"
	const train = "train --data t.csv --test other.csv --lot 5 --steps 1 --noise 4 --accountant rdp" + schema
	run := func(test []byte, command string) string {
		t.Helper()
		if err := os.WriteFile("other.csv", test, 0o644); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := dptrain(command)
		if code != exitcode.Done {
			t.Errorf("%s: exit %d, %s", command, code, stderr)
		}
		if strings.HasPrefix(command, "eval") {
			stdout = ""
		}
		return stdout + stderr
	}
	if _, stderr, code := dptrain(strings.Replace(train, " --test other.csv", "", 1) + " --out run"); code != exitcode.Done {
		t.Fatal(stderr)
	}
	for _, command := range []string{train + " --dry-run --seed 1", "eval run --data other.csv", "eval run --test other.csv"} {
		if equal, other := run(private, command), run(guess, command); equal != other {
			t.Errorf("%s: with the private rows\n%s\nwith another row\n%s", command, equal, other)
		}
	}
	run(private, train+" --out reported")
	if text := string(readFile(t, "reported/report.html")); !strings.Contains(text, "test data, which the user declares public") {
		t.Error("the report does not state that the test data are declared public")
	}
}
