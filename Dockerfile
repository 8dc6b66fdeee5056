# Builds one static binary and puts it, with the CA certificates that TLS needs and two folders to write to, into an empty image.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /coldtap ./cmd/coldtap
RUN mkdir -p /image/data /image/tmp && chmod 1777 /image/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /coldtap /coldtap
COPY --from=build --chown=65532:65532 /image/ /
# Without a --config the file is /etc/coldtap/coldtap.yaml, if one is mounted there; every key can also be given by the
# environment, see docs/configuration.md. Both listeners answer from outside of the container; they start once
# COLDTAP__AUTH__ALLOW_ANONYMOUS=true says that this is meant.
ENV COLDTAP__LISTEN=0.0.0.0:8080 COLDTAP__ADMIN=0.0.0.0:9090
# 8080: data plane, 9090: metrics and health.
EXPOSE 8080 9090
# The database, snapshots and a file store are in ./data unless configured otherwise.
WORKDIR /
VOLUME /data
USER 65532:65532
ENTRYPOINT ["/coldtap"]
CMD ["serve"]
