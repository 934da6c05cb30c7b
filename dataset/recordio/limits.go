package recordio

// Limits bounds what a reader accepts. They are checked before anything of that size is allocated. A zero field means its
// default; whatever Writer writes is within the defaults.
type Limits struct {
	StoredBytes int // payload of a chunk as stored; default 64 MiB
	RawBytes    int // payload of a chunk when decompressed; default 64 MiB
	RecordBytes int // one record; default 32 MiB
	Chunks      int // in a file; default 4 Mi, which is about 256 MiB of index
	Ratio       int // decompressed bytes per stored byte; by default only RawBytes bounds decompression
}

const (
	defaultChunkLimit  = 64 << 20
	defaultRecordLimit = 32 << 20
	defaultChunks      = 4 << 20
)

func (l Limits) withDefaults() Limits {
	if l.StoredBytes <= 0 {
		l.StoredBytes = defaultChunkLimit
	}
	if l.RawBytes <= 0 {
		l.RawBytes = defaultChunkLimit
	}
	if l.RecordBytes <= 0 {
		l.RecordBytes = defaultRecordLimit
	}
	if l.Chunks <= 0 {
		l.Chunks = defaultChunks
	}
	return l
}

// maxRaw is the decompressed size that a payload of stored bytes may have.
func (l Limits) maxRaw(stored int64) int64 {
	limit := int64(l.RawBytes)
	if l.Ratio > 0 {
		limit = min(limit, stored*int64(l.Ratio))
	}
	return limit
}
