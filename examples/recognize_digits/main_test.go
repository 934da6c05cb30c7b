package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/examples/internal/exampletest"
	"github.com/edl-go/edl/executor"
)

func TestPerceptronLearnsDigitsOfFonts(t *testing.T) {
	out := exampletest.Page(t, func(out string) error { return write(out, "mlp", "", "") })
	local := executor.New()
	defer local.Close()
	exampletest.Train(t, local, out, 2, "loss")
	if accuracy := exampletest.Mean(exampletest.Test(t, out, "accuracy")); accuracy < 0.9 {
		t.Errorf("accuracy is %g", accuracy)
	}
}

func TestUnknownNetwork(t *testing.T) {
	if err := write(t.TempDir(), "transformer", "", ""); err == nil {
		t.Error("a network that does not exist was built")
	}
	if err := write(t.TempDir(), "mlp", "images", ""); err == nil {
		t.Error("images without labels were read")
	}
}

func mnist(t *testing.T) (images, labels string) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is not set: no MNIST")
	}
	return filepath.Join(root, "mnist", "t10k-images-idx3-ubyte.gz"), filepath.Join(root, "mnist", "t10k-labels-idx1-ubyte.gz")
}

func TestPerceptronLearnsMNISTEverywhere(t *testing.T) {
	images, labels := mnist(t)
	out := t.TempDir()
	if err := write(out, "mlp", images, labels); err != nil {
		t.Fatal(err)
	}
	local := executor.New()
	defer local.Close()
	for name, exe := range map[string]executor.Executor{"local": local, "cluster": exampletest.Cluster(t)} {
		exampletest.Train(t, exe, out, 2, "loss")
		if accuracy := exampletest.Mean(exampletest.Test(t, out, "accuracy")); accuracy < 0.9 {
			t.Errorf("%s: accuracy is %g", name, accuracy)
		}
	}
}

func TestConvolutionsLearnMNIST(t *testing.T) {
	images, labels := mnist(t)
	if testing.Short() {
		t.Skip("training convolutions takes a while")
	}
	out := t.TempDir()
	if err := write(out, "conv", images, labels); err != nil {
		t.Fatal(err)
	}
	local := executor.New(executor.WithWorkers(2))
	defer local.Close()
	exampletest.Train(t, local, out, 3, "loss")
	if accuracy := exampletest.Mean(exampletest.Test(t, out, "accuracy")); accuracy <= 0.97 {
		t.Errorf("accuracy on the 1,000 held back is %g", accuracy)
	}
}

func TestLaw(t *testing.T) {
	for net := range networks {
		t.Run(net, func(t *testing.T) {
			out := t.TempDir()
			if err := write(out, net, "", ""); err != nil {
				t.Fatal(err)
			}
			exampletest.Obeys(t, out, "loss")
		})
	}
}
