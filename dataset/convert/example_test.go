package convert_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/tensor"
)

func ExampleCSV() {
	dir, err := os.MkdirTemp("", "iris")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	shards, err := dataset.CreateShards(dir, "iris", 2, recordio.Options{Compressor: recordio.Snappy})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shards.Abort()

	csv := "length,width,species\n5.1,3.5,0\n7.0,3.2,1\n6.3,3.3,2\n"
	n, err := convert.CSV(context.Background(), strings.NewReader(csv), shards, convert.CSVOptions{
		Header: true, Label: "species", LabelDType: tensor.Int64,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := shards.Close(); err != nil {
		fmt.Println(err)
		return
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range names {
		fmt.Println(filepath.Base(name))
	}
	fmt.Println(n, "samples")
	// Output:
	// iris-00000-of-00002
	// iris-00001-of-00002
	// 3 samples
}
