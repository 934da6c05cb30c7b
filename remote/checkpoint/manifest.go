package checkpoint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/shortform"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/tensor"
)

// Version 5 has sums of parts of shards. Version 4 has pieces in short form. Version 3 has tables in the order of stripes. Version 2 has shards of earlier checkpoints, and changes to them. A manifest
// without those is of version 1.
const (
	version = 5
	magic   = "EDLckpt\n"

	maxManifest = 256 << 20 // bytes
	maxShards   = 1 << 14
	maxPieces   = 1 << 22 // of all shards
)

// An encoded manifest is magic, the message, and the SHA-256 of both.

// encodeManifest returns the bytes of a manifest. It refuses one that decodeManifest would refuse.
func encodeManifest(m *state.Checkpoint) ([]byte, error) {
	if err := checkManifest(m); err != nil {
		return nil, err
	}
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte(magic), m)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "manifest", err)
	}
	sum := sha256.Sum256(b)
	if b = append(b, sum[:]...); len(b) > maxManifest {
		return nil, fault.E(fault.TooLarge, fault.At("manifest"), fault.Gotf("%d bytes", len(b)), fault.Wantf("at most %d", maxManifest))
	}
	return b, nil
}

// decodeManifest reads what encodeManifest wrote, and refuses everything else.
func decodeManifest(b []byte) (*state.Checkpoint, error) {
	end := len(b) - sha256.Size
	if end < len(magic) || string(b[:len(magic)]) != magic {
		return nil, corrupt("no manifest of a checkpoint", "one that edl wrote")
	}
	if sum := sha256.Sum256(b[:end]); !bytes.Equal(sum[:], b[end:]) {
		return nil, corrupt("a manifest that has changed: its sum differs", "the bytes that edl wrote")
	}
	m := &state.Checkpoint{}
	if err := proto.Unmarshal(b[len(magic):end], m); err != nil {
		return nil, corrupt("bytes that are no manifest", "those that edl wrote")
	}
	if m.Version < 1 || m.Version > version {
		return nil, fault.E(fault.Unsupported, fault.At("manifest"), fault.Gotf("version %d", m.Version), fault.Wantf("version 1 to %d", version))
	}
	return m, checkManifest(m)
}

func corrupt(got, want string) error {
	return fault.E(fault.Corrupt, fault.At("manifest"), fault.Got(got), fault.Want(want))
}

// shardName is the name of an object with the pieces of one pserver.
var shardName = regexp.MustCompile(`^shard-[0-9]{1,5}$`)

// checkManifest refuses a manifest whose pieces do not make whole variables, or do not lie in their shards.
func checkManifest(m *state.Checkpoint) error {
	if len(m.Shards) > maxShards {
		return fault.E(fault.TooLarge, fault.At("manifest"), fault.Gotf("%d shards", len(m.Shards)), fault.Wantf("at most %d", maxShards))
	}
	if m.Progress == nil {
		return corrupt("no progress", "how far the training was")
	}
	if err := jobspec.ProgressOf(m.Progress).Check(); err != nil {
		return fault.E(fault.Corrupt, fault.At("manifest"), fault.Cause(err))
	}
	if len(m.Ledger) > maxManifest {
		return fault.E(fault.TooLarge, fault.At("manifest"), fault.Gotf("a ledger of %d bytes", len(m.Ledger)), fault.Wantf("at most %d", maxManifest))
	}
	pieces, changes, seen := map[string][]*job.Piece{}, []*job.Piece{}, map[string]bool{}
	count := 0
	for _, s := range m.Shards {
		if !shardName.MatchString(s.Name) || seen[s.Checkpoint+"/"+s.Name] || s.Bytes < 0 || len(s.Sha256) != sha256.Size {
			return corrupt("shard "+fault.Quote(s.Name)+", which is named twice or wrongly, or has no sum", "shards, each once")
		}
		if s.Part != 0 && s.Part != partBytes {
			return corrupt(fmt.Sprintf("sums of parts of %d bytes", s.Part), fmt.Sprintf("of %d, or of all", partBytes))
		}
		if of := s.Checkpoint; of != "" && (!isName(of) || of == m.Name || isName(m.Name) && runOf(of) != runOf(m.Name)) {
			return corrupt("a shard of the checkpoint "+fault.Quote(of), "one of an earlier checkpoint of the run")
		}
		seen[s.Checkpoint+"/"+s.Name] = true
		if count += len(s.Pieces); count > maxPieces {
			return fault.E(fault.TooLarge, fault.At("manifest"), fault.Gotf("%d pieces", count), fault.Wantf("at most %d", maxPieces))
		}
		end := int64(0)
		for _, p := range s.Pieces {
			if err := checkPiece(p); err != nil {
				return err
			}
			if p.Offset != end || p.Bytes > s.Bytes-end {
				return corrupt(fmt.Sprintf("%d bytes of %s at offset %d of %s", p.Bytes, fault.Quote(p.Variable), p.Offset, s.Name),
					fmt.Sprintf("offset %d, within %d bytes", end, s.Bytes))
			}
			if end += p.Bytes; s.Changes {
				changes = append(changes, p)
			} else {
				pieces[p.Variable] = append(pieces[p.Variable], p)
			}
		}
		if end != s.Bytes {
			return corrupt(fmt.Sprintf("%s of %d bytes with pieces of %d", s.Name, s.Bytes, end), "as many")
		}
	}
	for name, list := range pieces {
		if err := checkWhole(name, list); err != nil {
			return err
		}
	}
	for _, p := range changes {
		if of := pieces[p.Variable]; len(of) == 0 || of[0].Dtype != p.Dtype || of[0].Striped != p.Striped || !slices.Equal(of[0].Dims, p.Dims) {
			return corrupt(fmt.Sprintf("changes of %s, of dims %v", fault.Quote(p.Variable), p.Dims), "those of a variable that another shard has")
		}
	}
	return nil
}

// checkPiece checks the rows of a piece against its dims, and its bytes against both.
func checkPiece(p *job.Piece) error {
	bad := func(got string) error {
		return fault.E(fault.Corrupt, fault.At("manifest"), fault.Var(p.Variable), fault.Got(got), fault.Want("rows of a variable"))
	}
	dtype := tensor.DType(p.Dtype)
	n, ok := tensor.Count(p.Dims)
	switch {
	case p.Variable == "" || len(p.Dims) > tensor.MaxRank:
		return bad("a piece without a name, or with too many dims")
	case !filepath.IsLocal(p.Variable):
		return bad("a name that leads out of the directory of a model")
	case !ok || dtype.Size() <= 0 || int64(n) > math.MaxInt64/int64(dtype.Size()):
		return bad(fmt.Sprintf("elements of type %v and dims %v", dtype, p.Dims))
	}
	total := rowsOf(p.Dims)
	if p.Striped && len(p.Dims) == 0 {
		return bad("a number in the order of stripes")
	}
	if p.FirstRow < 0 || p.Rows < 0 || p.FirstRow > total || p.Rows > total-p.FirstRow {
		return bad(fmt.Sprintf("%d rows from row %d of %d", p.Rows, p.FirstRow, total))
	}
	want := rowBytes(p) * p.Rows
	if p.Short {
		if p.Striped || p.Bytes < 0 || shortform.MostBytes(min(p.Bytes, want)) < p.Bytes {
			return bad(fmt.Sprintf("%d bytes in short form where %d rows have %d, striped: %v", p.Bytes, p.Rows, want, p.Striped))
		}
		return nil
	}
	if p.Bytes != want {
		return bad(fmt.Sprintf("%d bytes where %d rows have %d", p.Bytes, p.Rows, want))
	}
	return nil
}

// rowsOf is how many rows a variable has; 1 for a number.
func rowsOf(dims []int64) int64 {
	if len(dims) == 0 {
		return 1
	}
	return dims[0]
}

// rowBytes is how many bytes a row of a piece has, whose dims are checked.
func rowBytes(p *job.Piece) int64 {
	n := int64(tensor.DType(p.Dtype).Size())
	for i, d := range p.Dims {
		if i > 0 {
			n *= d
		}
	}
	return n
}

// checkWhole refuses pieces of a variable that do not agree, leave rows out, or have rows twice. Servers may each have a copy of a whole variable.
func checkWhole(name string, list []*job.Piece) error {
	list = slices.Clone(list)
	slices.SortStableFunc(list, byRows)
	copies := !slices.ContainsFunc(list, func(p *job.Piece) bool { return p.Rows != rowsOf(p.Dims) })
	next := int64(0)
	for _, p := range list {
		if copies {
			next = 0
		}
		if p.Dtype != list[0].Dtype || !slices.Equal(p.Dims, list[0].Dims) || p.FirstRow != next || p.Striped != list[0].Striped {
			return fault.E(fault.Corrupt, fault.At("manifest"), fault.Var(name), fault.Gotf("rows from %d of dims %v", p.FirstRow, p.Dims),
				fault.Wantf("rows from %d of dims %v", next, list[0].Dims))
		}
		next += p.Rows
	}
	if total := rowsOf(list[0].Dims); next != total {
		return fault.E(fault.Corrupt, fault.At("manifest"), fault.Var(name), fault.Gotf("%d rows", next), fault.Wantf("%d", total))
	}
	return nil
}

// nameOf is the name of a checkpoint.
func nameOf(run string, steps uint64, token string) string {
	return fmt.Sprintf("%s.%020d.%s", run, steps, token)
}

// byRows orders pieces of one variable.
func byRows(a, b *job.Piece) int {
	return cmp.Or(cmp.Compare(a.FirstRow, b.FirstRow), cmp.Compare(a.Rows, b.Rows))
}

// names of checkpoints: the run of a job, the steps, the token.
var names = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9-]{0,127})\.([0-9]{20})\.([A-Z2-7]{26})$`)

// runOf is the run of the checkpoint of that name.
func runOf(name string) string { return names.FindStringSubmatch(name)[1] }

// isName reports whether name may be that of a checkpoint, which is safe as a path.
func isName(name string) bool { return names.MatchString(name) }
