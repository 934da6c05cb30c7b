package jobspec

import (
	"encoding/base64"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
)

// FilesText returns datasets as executor.Progress has them in Files. It is empty where they are more than a Progress can have: some thousand files.
func FilesText(list []*rpc.Dataset) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&state.Datasets{Datasets: list})
	if err != nil || base64.StdEncoding.EncodedLen(len(b)) > executor.MaxProgressFiles {
		return ""
	}
	return base64.StdEncoding.EncodeToString(b)
}

// DatasetsOf is the inverse of FilesText. It refuses what FilesText does not write.
func DatasetsOf(p executor.Progress) ([]*rpc.Dataset, error) {
	corrupt := func(got string) error {
		return fault.E(fault.Corrupt, fault.At(executor.ProgressFile), fault.Got(got), fault.Want("the files of datasets that follow a folder"),
			fault.Hint("--from-start takes the parameters alone"))
	}
	b, err := base64.StdEncoding.DecodeString(p.Files)
	if err != nil || len(p.Files) > executor.MaxProgressFiles {
		return nil, corrupt("files that are not in base64")
	}
	m := &state.Datasets{}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, corrupt("files that cannot be parsed")
	}
	for _, d := range m.Datasets {
		switch {
		case !d.GetGrows() || !slices.IsSorted(d.Groups) || slices.ContainsFunc(d.Groups, func(n int64) bool { return n < 0 || n >= int64(len(d.Files)) }):
			return nil, corrupt("a dataset that follows no folder, or groups of no files")
		case slices.ContainsFunc(d.Files, func(f *rpc.DataFile) bool {
			return f == nil || f.Path == "" || f.Records < 0 || f.Records > mostRecords || f.Bytes < 0
		}):
			return nil, corrupt("a file without a name, or with a wrong number of records")
		}
	}
	return m.Datasets, nil
}

// mostRecords bounds the records of a file, so that those of all files together are within an int64.
const mostRecords = 1 << 42
