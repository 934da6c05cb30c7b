package queue

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/state"
)

// decode reads one entry, within limits.
func decode(key string, value []byte) (proto.Message, error) {
	if len(value) > maxEntry {
		return nil, fault.E(fault.TooLarge, fault.At("entry "+fault.Quote(key)), fault.Gotf("%d bytes", len(value)),
			fault.Wantf("at most %d", maxEntry))
	}
	var m proto.Message
	switch prefix, _ := split(key); prefix {
	case headKey:
		m = &state.Head{}
	case filePrefix:
		m = &state.File{}
	case taskPrefix:
		m = &state.Task{}
	case rankPrefix:
		m = &state.Rank{}
	case segmentPrefix:
		m = &state.Segment{}
	default:
		return nil, corrupt(key, "no entry of a task queue")
	}
	if err := proto.Unmarshal(value, m); err != nil {
		return nil, corrupt(key, fmt.Sprintf("%d bytes that do not decode", len(value)))
	}
	return m, nil
}

// split parts a key into what it is and its number; the prefix is empty when it is no key of an entry.
func split(key string) (prefix string, number int64) {
	if key == headKey {
		return headKey, 0
	}
	i := strings.IndexByte(key, '/') + 1
	n, err := strconv.ParseInt(key[i:], 10, 64)
	if err != nil || n < 0 || numbered(key[:i], n) != key {
		return "", 0
	}
	return key[:i], n
}

func corrupt(key, what string) error {
	return fault.E(fault.Corrupt, fault.At("entry "+fault.Quote(key)), fault.Got(what))
}
