package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

var (
	times    = regexp.MustCompile(`"seconds":[0-9.e-]+`)
	textRate = regexp.MustCompile(`seconds [0-9.]+  records/s [0-9]+`)
)

// untimed writes the last standard output to a file, with 0 for whatever depends on the clock.
func untimed(ts *testscript.TestScript, _ bool, args []string) {
	text := times.ReplaceAllString(ts.ReadFile("stdout"), `"seconds":0`)
	text = textRate.ReplaceAllString(text, "seconds 0  records/s 0")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}

// spoil makes a file that no command can use: spoil empty|random|huge FILE, or spoil cut FILE SOURCE. A huge file is sparse.
func spoil(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[1])
	switch args[0] {
	case "empty":
		ts.Check(os.WriteFile(path, nil, 0o666))
	case "random":
		noise, state := make([]byte, 5000), uint64(88172645463325252)
		for i := range noise {
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
			noise[i] = byte(state >> 32)
		}
		ts.Check(os.WriteFile(path, noise, 0o666))
	case "huge":
		ts.Check(os.WriteFile(path, nil, 0o666))
		ts.Check(os.Truncate(path, 3<<30))
	case "cut":
		whole := ts.ReadFile(args[2])
		ts.Check(os.WriteFile(path, []byte(whole[:len(whole)*2/3]), 0o666))
	default:
		ts.Fatalf("spoil does not know %s", args[0])
	}
}

// table writes rows that the program "line" learns, all exact in float32: table ROWS FILE.
func table(ts *testscript.TestScript, _ bool, args []string) {
	rows, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b strings.Builder
	b.WriteString("a,b,y\n")
	for i := range rows {
		x, y := i%3-1, i/3%3-1
		fmt.Fprintf(&b, "%d,%d,%d\n", x, y, 2*x+y)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b.String()), 0o666))
}

// damage flips the bits of one byte of the first chunk of a record file, behind the header of the chunk.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	b[100] ^= 0xff
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}
