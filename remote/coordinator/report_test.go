package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// manyFiles are so many that neither the report of them nor the entries that it makes fit into one message of the transport.
func manyFiles() []*rpc.DataFile {
	var files []*rpc.DataFile
	for i := range int64(200_000) {
		path := fmt.Sprintf("s3://a-bucket/a/folder/with/a/long/name/of/many/parts/train-%09d.rec", i)
		files = append(files, &rpc.DataFile{Path: path, FirstRecord: 5 * i, Records: 5, Bytes: 400, Fingerprint: uint64(i)})
	}
	return files
}

// A dataset may have as many files as one likes: it is reported, told again, compared, written, read and shown.
func TestDatasetOfManyFiles(t *testing.T) {
	cfg := async(1)
	cfg.RecordsPerTask = 1
	h := newHome(t, cfg)
	s := h.start()
	s.joinAll(0, 0)
	files := manyFiles()
	report := func() error {
		return wire.ReportDataset(t.Context(), s.client, &rpc.ReportDatasetRequest{Id: id(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: files}})
	}
	for range 2 {
		if err := report(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := wire.Queues(t.Context(), s.client, &rpc.QueuesRequest{Job: rig.Identity.Job, Entries: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Queues[0].Records != 1_000_000 || r.Queues[0].Todo != 1_000_000 || len(r.Entries) < len(files) {
		t.Errorf("%d tasks of %d records, %d entries", r.Queues[0].Todo, r.Queues[0].Records, len(r.Entries))
	}
	files[199_999].Bytes = 401
	err = report()
	if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), `train-000199999.rec" has 5 records in 401 bytes`) ||
		!strings.Contains(err.Error(), "has 5 records in 400 bytes") {
		t.Error(err)
	}
}
