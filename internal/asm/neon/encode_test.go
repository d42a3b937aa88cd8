package neon

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// gnuEncodings are the codes that the GNU assembler 2.40 generates for one instruction of each
// kind.
const gnuEncodings = `
4e23d441 fadd v1.4s, v2.4s, v3.4s
4ebdd7df fsub v31.4s, v30.4s, v29.4s
6e31dea4 fmul v4.4s, v21.4s, v17.4s
6e21fd10 fdiv v16.4s, v8.4s, v1.4s
4e39f407 fmax v7.4s, v0.4s, v25.4s
4eabf549 fmin v9.4s, v10.4s, v11.4s
4e2ec5ac fmaxnm v12.4s, v13.4s, v14.4s
4e731e4f bic v15.16b, v18.16b, v19.16b
6eb7e6d4 fcmgt v20.4s, v22.4s, v23.4s
4ee31c41 orn v1.16b, v2.16b, v3.16b
4e3ee7fd fcmeq v29.4s, v31.4s, v30.4s
4e7bd758 fadd v24.2d, v26.2d, v27.2d
4ef2d49b fsub v27.2d, v4.2d, v18.2d
6e69dfc5 fmul v5.2d, v30.2d, v9.2d
6ea1f8bc fsqrt v28.4s, v5.4s
4ea0fbc6 fabs v6.4s, v30.4s
4e218a23 frintn v3.4s, v17.4s
4e21a853 fcvtns v19.4s, v2.4s
4e21d83f scvtf v31.4s, v1.4s
4ea0eb08 fcmlt v8.4s, v24.4s, #0.0
6ea0da8a fcmle v10.4s, v20.4s, #0.0
4ea0daab fcmeq v11.4s, v21.4s, #0.0
4e61d927 scvtf v7.2d, v9.2d
0e616a44 fcvtn v4.2s, v18.2d
4e616a44 fcvtn2 v4.4s, v18.2d
0e617acc fcvtl v12.2d, v22.2s
4e617aed fcvtl2 v13.2d, v23.4s
2e61395f shll v31.4s, v10.4h, #16
6e61395f shll2 v31.4s, v10.8h, #16
0e21795f fcvtl v31.4s, v10.4h
4e21795f fcvtl2 v31.4s, v10.8h
7e70db2e faddp d14, v25.2d
6e30cb4f fmaxnmv s15, v26.4s
6ea34441 ushl v1.4s, v2.4s, v3.4s
4ef144a4 sshl v4.2d, v5.2d, v17.2d
6ebc3fbe cmhs v30.4s, v29.4s, v28.4s
6eb1a907 uminv s7, v8.4s
4eb1b949 addv s9, v10.4s
0f10a58b sxtl v11.4s, v12.4h
4f10a5cd sxtl2 v13.4s, v14.8h
0f20a58b sxtl v11.2d, v12.2s
4f20a5cd sxtl2 v13.2d, v14.4s
4f839041 fmul v1.4s, v2.4s, v3.s[0]
4fb190a4 fmul v4.4s, v5.4s, v17.s[1]
4f9e18e6 fmla v6.4s, v7.4s, v30.s[2]
4faf1a1f fmla v31.4s, v16.4s, v15.s[3]
4fb05308 fmls v8.4s, v24.4s, v16.s[1]
4f3f0729 sshr v9.4s, v25.4s, #1
4f29074a sshr v10.4s, v26.4s, #23
4f21076b sshr v11.4s, v27.4s, #31
4ea39c41 mul v1.4s, v2.4s, v3.4s
6eb166a4 umax v4.4s, v21.4s, v17.4s
0e67c0c5 smull v5.4s, v6.4h, v7.4h
4e7d83df smlal2 v31.4s, v30.8h, v29.8h
0eaa8128 smlal v8.2d, v9.2s, v10.2s
4eb48272 smlal2 v18.2d, v19.4s, v20.4s
0ea31041 saddw v1.2d, v2.2d, v3.2s
4ebb1358 saddw2 v24.2d, v26.2d, v27.4s
4f20e6ab scvtf v11.4s, v21.4s, #32
0e614acc sqxtn v12.4h, v22.4s
4e614b2e sqxtn2 v14.8h, v25.4s
6ea06807 uadalp v7.2d, v0.4s
6eb0ab4f umaxv s15, v26.4s
5ef1bb2e addp d14, v25.2d
0f432041 smlal v1.4s, v2.4h, v3.h[0]
0f7f2bdf smlal v31.4s, v30.4h, v15.h[7]
4f562b08 smlal2 v8.4s, v24.8h, v6.h[5]
4f652329 smlal2 v9.4s, v25.8h, v5.h[2]
`

var registers = regexp.MustCompile(`\b[vsd](\d+)`)

func TestEncodings_AgreeWithGNUAssembler(t *testing.T) {
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(gnuEncodings), "\n") {
		code, text, _ := strings.Cut(line, " ")
		want, err := strconv.ParseUint(code, 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		var regs []*reg
		for _, r := range registers.FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(r[1])
			if err != nil {
				t.Fatal(err)
			}
			regs = append(regs, &reg{vector: true, number: n})
		}
		format := registers.ReplaceAllStringFunc(text, func(r string) string { return r[:1] + "%d" })
		name, _, _ := strings.Cut(text, " ")
		f := newFunction("f", "func()")
		last := len(text) - 2
		switch {
		case name == "sshr":
			by, err := strconv.Atoi(text[strings.Index(text, "#")+1:])
			if err != nil {
				t.Fatal(err)
			}
			shiftRightSigned(f, regs[0], regs[1], by)
		case strings.Contains(text, ".h["):
			seen[name] = true
			f.byHalfLane(name, regs[0], regs[1], regs[2], int(text[last]-'0'))
		case strings.HasSuffix(text, "]"):
			seen[name] = true
			f.byLane(name, regs[0], regs[1], lane{regs[2], int(text[last] - '0')})
		default:
			seen[format] = true
			f.vector(format, regs...)
		}
		if got := f.code[0].word(); got != uint32(want) {
			t.Errorf("%s is %08x, want %08x", text, got, want)
		}
	}
	for format := range bases {
		if !seen[format] {
			t.Errorf("%s is missing in gnuEncodings", format)
		}
	}
	for name := range laneBases {
		if !seen[name] {
			t.Errorf("%s by lane is missing in gnuEncodings", name)
		}
	}
	for name := range halfLaneBases {
		if !seen[name] {
			t.Errorf("%s by lane is missing in gnuEncodings", name)
		}
	}
}

// Every encoded word of every kernel is the code of the instruction in its comment.
func TestWords_AgreeWithComments(t *testing.T) {
	assembler, err := exec.LookPath("aarch64-linux-gnu-as")
	if err != nil {
		t.Skip("aarch64-linux-gnu-as is not installed")
	}
	var source strings.Builder
	var words []uint32
	done := map[string]bool{}
	for _, file := range Files {
		code, _, err := file.Text()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(code), "\n") {
			var word uint32
			if _, err := fmt.Sscanf(line, "\tWORD $0x%x //", &word); err != nil || done[line] {
				continue
			}
			done[line] = true
			words = append(words, word)
			_, comment, _ := strings.Cut(line, "// ")
			source.WriteString(comment + "\n")
		}
	}
	object := filepath.Join(t.TempDir(), "words.o")
	cmd := exec.Command(assembler, "-o", object, "-")
	cmd.Stdin = strings.NewReader(source.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	if len(words) < 100 || len(code) != 4*len(words) {
		t.Fatalf("%d words, %d bytes assembled", len(words), len(code))
	}
	lines := strings.Split(source.String(), "\n")
	for i, w := range words {
		if want := binary.LittleEndian.Uint32(code[4*i:]); w != want {
			t.Errorf("%s is %08x, want %08x", lines[i], w, want)
		}
	}
}
