// Gen writes the assembly of packages simd, peak and crc32c. It is a module of its own, so that building the project needs neither it
// nor its assembler library.
//
// Usage, from ops/kernel:
//
//	go -C internal/gen run .          write every file anew
//	go -C internal/gen run . -check   write nothing; exit 1 and name each file that differs from what would be written
//
// An asmFile is one file of ops/kernel/internal. Its functions are declared in Go by hand, next to the code that
// calls them.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// files maps the files of the output to what writes their functions.
var files = []struct {
	file string // from ops/kernel/internal
	emit func(*asmFile)
}{
	{"simd/gemm_avx2_amd64.s", func(u *asmFile) { gemm(u, avx2) }},
	{"simd/gemm_avx512_amd64.s", func(u *asmFile) { gemm(u, avx512) }},
	{"simd/transpose_amd64.s", transpose},
	{"simd/panel_amd64.s", panel},
	{"simd/elementwise_amd64.s", elementwise},
	{"simd/activation_amd64.s", activation},
	{"simd/lstm_amd64.s", lstm},
	{"simd/optimizer_amd64.s", optimizer},
	{"simd/reduction_amd64.s", reduction},
	{"simd/rows_amd64.s", rows},
	{"simd/half_amd64.s", half},
	{"simd/patch_amd64.s", patch},
	{"simd/winograd_amd64.s", winograd},
	{"simd/pool_amd64.s", pool},
	{"../peak/peak_amd64.s", peak},
	{"../../../internal/crc32c/fold_amd64.s", crc32c},
}

func main() {
	check := flag.Bool("check", false, "write nothing; exit 1 and name the files that are not up to date")
	output := flag.String("output", "..", "the folder of ops/kernel/internal")
	flag.Parse()
	if err := run(*output, *check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(folder string, check bool) error {
	for _, target := range files {
		u := newAsmFile()
		target.emit(u)
		text, err := u.assembly()
		if err != nil {
			return fmt.Errorf("%s: %w", target.file, err)
		}
		path := filepath.Join(folder, target.file)
		if !check {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(have, text) {
			return fmt.Errorf("%s is not up to date: run `go generate ./ops/kernel`", target.file)
		}
	}
	return nil
}
