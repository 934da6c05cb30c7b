// Package page is what the examples share: the flag -out, files, and the commands that are printed at the end. What an example is about
// stands in its own main.go.
package page

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/program"
)

// Main parses the flags and lets write fill the directory of -out. It returns the exit code.
func Main(write func(out string) error) int {
	out := flag.String("out", "", "directory to write to (default: a new temporary one)")
	flag.Parse()
	if err := fill(*out, write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func fill(out string, write func(out string) error) error {
	if out == "" {
		var err error
		if out, err = os.MkdirTemp("", "edl-example-"); err != nil {
			return err
		}
	}
	return write(out)
}

// Save writes a program that build returns to a file in out, which is made if need be.
func Save(out, name string, build func() (*program.Program, error)) error {
	p, err := build()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	return p.Save(filepath.Join(out, name))
}

// Dataset lets fill write the records of a dataset in out.
func Dataset(out, name string, fill func(dataset.RecordWriter) error) error {
	w, err := dataset.CreateShards(out, name, 2, recordio.Options{ChunkRecords: 256})
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := fill(w); err != nil {
		return err
	}
	return w.Close()
}

// Split writes n records to two datasets in out: those that held picks to test, and the others to train.
func Split(out string, n int, held func(i int) bool, record func(i int) ([]byte, error)) error {
	for name, want := range map[string]bool{"train": false, "test": true} {
		err := Dataset(out, name, func(w dataset.RecordWriter) error {
			for i := range n {
				if held(i) != want {
					continue
				}
				b, err := record(i)
				if err != nil {
					return err
				}
				if err := w.Write(b); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Commands prints what trains the program in out, on one machine and on many, and what checks that many compute what they should.
func Commands(out, flags string) {
	of := fmt.Sprintf("%s --data train='%s'", filepath.Join(out, "program.pb"), filepath.Join(out, "train-*"))
	run := fmt.Sprintf("edl run %s %s --save %s", of, flags, filepath.Join(out, "model"))
	fmt.Println("train it on this machine:")
	fmt.Println("  " + run)
	fmt.Println("train it on a cluster of processes:")
	fmt.Println("  " + run + " --remote --trainers 2 --pservers 2")
	fmt.Println("check that such a cluster computes the bits of the reference:")
	fmt.Println("  edl verify " + of + " --steps 50 --trainers 2 --pservers 2")
}

// Evaluation prints what tests the saved parameters.
func Evaluation(out, fetch string) {
	fmt.Println("test what it learned:")
	fmt.Printf("  edl run %s --data test='%s' --params %s --fetch %s\n", filepath.Join(out, "test.pb"), filepath.Join(out, "test-*"),
		filepath.Join(out, "model"), fetch)
}
