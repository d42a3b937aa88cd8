# An image for several ranks: Open MPI and sshd of the MPI operator, and a dptrain that opens MPI.
#     make gpu && docker build --file examples/deploy/ranks.Dockerfile --tag registry.example.org/dptrain-ranks:0.1.0 .
FROM mpioperator/openmpi:v0.7.0
COPY dptrain /usr/local/bin/dptrain
USER 1000
