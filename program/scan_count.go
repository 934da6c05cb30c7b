package program

import "google.golang.org/protobuf/encoding/protowire"

// count adds n elements of a field to what its limit, and that of a tensor's rank, allow.
func (s *scanner) count(at int64, field layoutField, n int64, rank *int64) error {
	if field.isDims {
		if *rank += n; *rank > s.limits.Rank {
			return s.tooLarge(at, "rank", *rank, s.limits.Rank)
		}
	}
	if field.counter == uncounted {
		return nil
	}
	s.used[field.counter] += n
	if used, limit := s.used[field.counter], s.limits.of(field.counter); used > limit {
		return s.tooLarge(at, field.counter.String(), used, limit)
	}
	return nil
}

// packedCount returns the number of elements of a packed list: of varints, the number of bytes that end one.
func packedCount(b []byte, element protowire.Type) int64 {
	switch element {
	case protowire.Fixed32Type:
		return int64(len(b)) / 4
	case protowire.Fixed64Type:
		return int64(len(b)) / 8
	}
	n := int64(0)
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	return n
}
