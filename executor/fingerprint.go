package executor

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/edl-go/edl/program"
)

var fingerprintSeed = maphash.MakeSeed()

// fingerprint tells two states of a program apart. It looks at everything that a plan depends on, and is cheap enough to be
// taken before each run; it means nothing outside of this process.
func fingerprint(p *program.Program) uint64 {
	var h maphash.Hash
	h.SetSeed(fingerprintSeed)
	for _, b := range p.Blocks {
		number(&h, int64(b.Parent))
		for _, v := range b.Vars() {
			text(&h, v.Name)
			number(&h, int64(v.Kind), int64(v.DType), int64(v.LoDLevel), int64(len(v.Dims)))
			number(&h, v.Dims...)
			maphash.WriteComparable(&h, v.Persistable)
		}
		number(&h, int64(len(b.Ops)))
		for _, op := range b.Ops {
			text(&h, op.Type)
			number(&h, int64(slotsSum(op.Inputs)), int64(slotsSum(op.Outputs)), int64(attrsSum(op.Attrs)))
		}
	}
	return h.Sum64()
}

// slotsSum adds the hashes of the slots, so that the order of the map does not count.
func slotsSum(slots map[string][]string) (sum uint64) {
	for slot, names := range slots {
		var h maphash.Hash
		h.SetSeed(fingerprintSeed)
		text(&h, slot)
		for _, name := range names {
			text(&h, name)
		}
		sum += h.Sum64()
	}
	return sum
}

// attrsSum does the same for attributes. The line of user code is no part of what a program computes.
func attrsSum(attrs map[string]program.Attr) (sum uint64) {
	for name, value := range attrs {
		if name == program.AttrCallstack {
			continue
		}
		var h maphash.Hash
		h.SetSeed(fingerprintSeed)
		text(&h, name)
		attr(&h, value)
		sum += h.Sum64()
	}
	return sum
}

func attr(h *maphash.Hash, value program.Attr) {
	switch v := value.(type) {
	case int32:
		number(h, 1, int64(v))
	case int64:
		number(h, 2, v)
	case float32:
		number(h, 3, int64(math.Float32bits(v)))
	case float64:
		number(h, 4, int64(math.Float64bits(v)))
	case string:
		number(h, 5)
		text(h, v)
	case []string:
		number(h, 6, int64(len(v)))
		for _, s := range v {
			text(h, s)
		}
	default:
		text(h, fmt.Sprintf("%T%v", value, value))
	}
}

func text(h *maphash.Hash, s string) {
	number(h, int64(len(s)))
	h.WriteString(s)
}

func number(h *maphash.Hash, values ...int64) {
	var b [8]byte
	for _, v := range values {
		binary.LittleEndian.PutUint64(b[:], uint64(v))
		h.Write(b[:])
	}
}
