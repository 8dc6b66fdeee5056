package segment

// ControlType is the type of a control record. Others than these two exist (leader change, KRaft) and are to be
// ignored.
type ControlType int16

const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
)

// ParseControl reads the marker of a control batch (whole batch bytes), as written at the end of a transaction by the
// producer that the batch's header names. ok is false when the batch holds no such marker: the cleaner emptied it, or
// it is a control record of another type, which t then tells. A batch that is no control batch is Corrupt.
func ParseControl(batch []byte) (t ControlType, coordinatorEpoch int32, ok bool, err error) {
	d := Decoder{out: output{limit: minBuffer}}
	if err := d.Open(batch); err != nil {
		return 0, 0, false, err
	}
	if !d.header.IsControl() {
		return 0, 0, false, corrupt("control batch", 21, "data batch at offset %d", d.header.BaseOffset)
	}
	var rec Record
	any, err := d.Next(&rec)
	if err != nil || !any {
		return 0, 0, false, err
	}
	key := cursor{b: rec.Key}
	version := key.int16()
	t = ControlType(key.int16())
	if key.fault != "" || version < 0 {
		return 0, 0, false, corrupt("control batch", HeaderSize, "key of %d bytes, version %d at offset %d",
			len(rec.Key), version, rec.Offset)
	}
	if t != ControlAbort && t != ControlCommit {
		return t, -1, false, nil
	}
	// Later versions may append fields to key and value; Kafka reads them as version 0.
	value := cursor{b: rec.Value}
	version = value.int16()
	coordinatorEpoch = value.int32()
	if value.fault != "" || version < 0 {
		return 0, 0, false, corrupt("control batch", HeaderSize, "value of %d bytes, version %d at offset %d",
			len(rec.Value), version, rec.Offset)
	}
	return t, coordinatorEpoch, true, nil
}
