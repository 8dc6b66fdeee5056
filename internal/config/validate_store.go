package config

// validate checks where the objects are.
func (s *Store) validate(bad func(key, format string, args ...any)) {
	required := func(key, value, why string) {
		if value == "" {
			bad(key, "is required for store.kind %s%s", s.Kind, why)
		}
	}
	switch s.Kind {
	case "s3":
		required("store.s3.bucket", s.S3.Bucket, "")
		required("store.s3.region", s.S3.Region, " (any value does for most S3-compatible stores)")
	case "gcs":
		required("store.gcs.bucket", s.GCS.Bucket, "")
		if s.GCS.Anonymous && s.GCS.CredentialsFile != "" {
			bad("store.gcs.anonymous", "goes without credentials_file")
		}
	case "azure":
		s.Azure.validate(bad)
	case "file":
		required("store.file.dir", s.File.Dir, "")
	}
}

func (a *AzureStore) validate(bad func(key, format string, args ...any)) {
	if a.Container == "" {
		bad("store.azure.container", "is required for store.kind azure")
	}
	given := 0
	for _, secret := range []string{a.AccountKey, a.AccountKeyFile, a.ConnectionString, a.ConnectionStringFile, a.SAS, a.SASFile} {
		if secret != "" {
			given++
		}
	}
	if given > 1 {
		bad("store.azure", "give one of account_key, connection_string and sas, as a value or as a file")
	}
	connection := a.ConnectionString != "" || a.ConnectionStringFile != ""
	switch {
	case connection && (a.Account != "" || a.Endpoint != ""):
		bad("store.azure.account", "is part of the connection string, and so is endpoint; leave both out")
	case !connection && a.Account == "" && a.Endpoint == "":
		bad("store.azure.account", "is required for store.kind azure, or an endpoint or a connection string")
	}
}
