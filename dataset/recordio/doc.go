// Package recordio reads and writes RecordIO files, the form of EDL's training data.
//
// A record is any sequence of bytes, also an empty one. A file is a row of chunks and a footer that lists them. A
// chunk is what is compressed and checked as one, and what a coordinator hands out as work; it is a header of six uint32,
// little-endian, and a payload:
//
//	magic       "EDLR"
//	checksum    CRC-32 (IEEE) of the whole chunk but these four bytes
//	compressor  0 none, 1 snappy framing format, 2 gzip
//	stored      bytes of the payload as stored
//	records     number of records
//	raw         bytes of the payload when decompressed
//	payload     when decompressed: per record its length as uint32, and its bytes
//
// The footer is:
//
//	magic       "EDLF"
//	version     uint32: 2
//	entries     per chunk its offset in the file as uint64, and its header without the magic
//	records     uint64: of all chunks
//	chunks      uint32: number of entries
//	checksum    CRC-32 (IEEE) of the footer up to here
//	end         "EDLINDEX"
//
// That is the layout Indexed. Two older ones are known by their magic number, 0x01020304, and have no footer. Plain, of the Go library of
// PaddlePaddle, has headers of five uint32: magic, checksum (of the payload alone), compressor, stored, records. Fluid, of its C++
// writer, puts the number of records in front of the checksum. They are told apart by which of the two makes a valid header.
//
// LoadIndex finds the chunks of a file without reading payloads, RangeReader reads any run of records through it, and Scan
// reads whole files in order. Files are not trusted: whatever is cut, flipped or lies about its size ends in a fault of kind
// Corrupt or TooLarge that names file and byte, and a record is handed out only when its whole chunk is sound. Nothing is allocated for what a
// file only claims. A file with a footer is read as it was written, or refused. A file of an old layout that is cut exactly between two chunks
// is a sound, shorter file, and an empty file is one of no records.
package recordio
