package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
)

// Both networks learn the forms. The usual test trains one of them, on a third of the pictures, until it is clearly better than chance (0.1).
func TestNetworksLearnForms(t *testing.T) {
	nets, pictures, want := map[string]int64{"resnet": 4}, 1000, 0.2
	if os.Getenv("EDL_LONG") != "" {
		nets, pictures, want = map[string]int64{"vgg": 8, "resnet": 4}, 3000, 0.45
	}
	for net, filters := range nets {
		out := exampletest.Page(t, func(out string) error { return write(out, net, filters, "", pictures) })
		local := executor.New(executor.WithWorkers(2))
		defer local.Close()
		exampletest.Train(t, local, out, 4, "loss")
		accuracy := exampletest.Mean(exampletest.Test(t, out, "accuracy"))
		if t.Logf("%s: accuracy is %g", net, accuracy); accuracy < want {
			t.Errorf("want %g", want)
		}
	}
}

func TestLaw(t *testing.T) {
	for net := range networks {
		t.Run(net, func(t *testing.T) {
			out := t.TempDir()
			if err := write(out, net, 2, "", 200); err != nil {
				t.Fatal(err)
			}
			exampletest.Obeys(t, out, "loss")
		})
	}
}

func TestMistakes(t *testing.T) {
	for want, err := range map[string]error{
		"-net transformer": write(t.TempDir(), "transformer", 0, "", 1),
		"-filters -1":      write(t.TempDir(), "vgg", -1, "", 1),
		"no such file":     write(t.TempDir(), "vgg", 1, t.TempDir(), 1),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// kept are the records that a function writes.
type kept [][]byte

func (k *kept) Write(record []byte) error {
	*k = append(*k, append([]byte(nil), record...))
	return nil
}

func TestFilesOfCIFAR(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test_batch.bin")
	picture := make([]byte, 3073)
	picture[0], picture[1], picture[3072] = 7, 255, 51
	for content, want := range map[string]string{
		string(picture) + string(picture):              "",
		string(picture) + "\x01":                       "picture 1: unexpected EOF",
		string(picture) + "\x0a" + string(picture[1:]): "picture 1: the label is 10, want 0 to 9",
	} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		var records kept
		err := readCIFAR(path, &records)
		if want == "" && (err != nil || len(records) != 2) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d records, %v, want %q", len(records), err, want)
		}
		values, err := dataset.DecodeRecord(records[0])
		if err != nil {
			t.Fatal(err)
		}
		if image := values[0].Float32s(); image[0] != 1 || image[1] != -1 || image[3071] != 2*float32(51)/255-1 || values[1].Int64s()[0] != 7 {
			t.Errorf("label %v, pixels %v, %v", values[1].Int64s(), image[0], image[3071])
		}
	}
}
