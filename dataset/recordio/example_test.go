package recordio_test

import (
	"bytes"
	"fmt"

	"github.com/edl-go/edl/dataset/recordio"
)

func Example() {
	var file bytes.Buffer
	w, err := recordio.NewWriter(&file, recordio.Options{ChunkRecords: 2, Compressor: recordio.Snappy})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, record := range []string{"zero", "one", "two"} {
		if err := w.Write([]byte(record)); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	stored := bytes.NewReader(file.Bytes())
	index, err := recordio.LoadIndex("numbers", stored, stored.Size(), recordio.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(index.Chunks), "chunks,", index.NumRecords(), "records")
	r, err := recordio.NewRangeReader(stored, index, 1, 2)
	for err == nil {
		var record []byte
		if record, err = r.Next(); err == nil {
			fmt.Println(string(record))
		}
	}
	fmt.Println(err)
	// Output:
	// 2 chunks, 3 records
	// one
	// two
	// EOF
}
